"""uclearn: continual learning in PyTorch. A network, plus what it must not forget.

Reading order:

    I.   mathematics   topology, gaussian, penalties
    II.  tasks         tasks, networks
    III. methods       methods.contract first, then methods.ucl
    IV.  what lasts    storage, session
    V.   training      training.loop first; rl for agents
    VI.  experiments   runs.job first; paper, measures, report, cli
    VII. in use        live.learner first, then live.gate; surgery
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uclearn.errors import UclearnError
    from uclearn.live.gate import Gate
    from uclearn.live.learner import Learner
    from uclearn.methods.contract import Method, Step
    from uclearn.methods.ucl import UCL
    from uclearn.native.adam import Adam

__version__ = "0.1.0"

_HOMES = {
    "Adam": "uclearn.native.adam",
    "UCL": "uclearn.methods.ucl",
    "Gate": "uclearn.live.gate",
    "Learner": "uclearn.live.learner",
    "Method": "uclearn.methods.contract",
    "Step": "uclearn.methods.contract",
    "UclearnError": "uclearn.errors",
}

__all__ = ["UCL", "Adam", "Gate", "Learner", "Method", "Step", "UclearnError", "__version__"]


def __getattr__(name: str) -> Any:
    """Load a name where it lives, when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'uclearn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
