"""`module:function`: whatever a user's own program makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError


def load_function(named: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` names; modules in the present folder are found, too.

    >>> load_function("math:sqrt", "--network")(9)
    3.0
    """
    module, _, name = named.rpartition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a command, unlike `python`, does not look there
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(
            f"`{what}` {named}: cannot be imported ({error}). Write MODULE:FUNCTION, and start the "
            "command where MODULE.py lies."
        ) from error
    if not callable(found):
        raise SettingError(f"`{what}` {named}: must be a function, got {type(found).__name__}.")
    function: Callable[..., Any] = found
    return function
