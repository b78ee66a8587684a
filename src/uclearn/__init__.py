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
    from uclearn.methods.baselines import FineTuning, Joint
    from uclearn.methods.contract import Method, Step
    from uclearn.methods.coreset import WithCoreset
    from uclearn.methods.ewc import EWC
    from uclearn.methods.hat import HAT
    from uclearn.methods.lwf import LwF, WithLwF
    from uclearn.methods.mas import MAS
    from uclearn.methods.replay import WithReplay
    from uclearn.methods.rwalk import RWalk
    from uclearn.methods.si import SI
    from uclearn.methods.ucl import UCL
    from uclearn.methods.vcl import VCL
    from uclearn.native.adam import Adam

__version__ = "0.1.0"

_HOMES = {
    "EWC": "uclearn.methods.ewc",
    "HAT": "uclearn.methods.hat",
    "MAS": "uclearn.methods.mas",
    "SI": "uclearn.methods.si",
    "UCL": "uclearn.methods.ucl",
    "VCL": "uclearn.methods.vcl",
    "Adam": "uclearn.native.adam",
    "FineTuning": "uclearn.methods.baselines",
    "Gate": "uclearn.live.gate",
    "Joint": "uclearn.methods.baselines",
    "Learner": "uclearn.live.learner",
    "LwF": "uclearn.methods.lwf",
    "Method": "uclearn.methods.contract",
    "RWalk": "uclearn.methods.rwalk",
    "Step": "uclearn.methods.contract",
    "UclearnError": "uclearn.errors",
    "WithCoreset": "uclearn.methods.coreset",
    "WithLwF": "uclearn.methods.lwf",
    "WithReplay": "uclearn.methods.replay",
}

__all__ = [
    "EWC",
    "HAT",
    "MAS",
    "SI",
    "UCL",
    "VCL",
    "Adam",
    "FineTuning",
    "Gate",
    "Joint",
    "Learner",
    "LwF",
    "Method",
    "RWalk",
    "Step",
    "UclearnError",
    "WithCoreset",
    "WithLwF",
    "WithReplay",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a name where it lives, when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'uclearn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
