"""`module:function`: whatever a user's own program makes."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError
from uclearn.tasks.data import iterate
from uclearn.tasks.task import TaskSequence


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


FUNCTION = "function"
_LOOKED_AT = 64
"""Examples of each part that a fingerprint stands for, beside how many there are."""


def is_function(path: str) -> bool:
    """Whether it reads `module:function` and is no file."""
    return ":" in path and not Path(path).exists()


def made_by(named: str, seed: int) -> TaskSequence:
    """The tasks that a user's function makes, called with the seed."""
    function = load_function(named, "benchmark")
    made = function(seed) if inspect.signature(function).parameters else function()
    if not isinstance(made, TaskSequence):
        raise SettingError(
            f"{named} must return a uclearn.tasks.TaskSequence, got {type(made).__name__}."
        )
    for task in made:
        if task.test is None:
            raise SettingError(f"{named}: task {task.name!r} has no `test` data to be judged by.")
    return made


def digest_of(tasks: TaskSequence) -> str:
    """Twelve hexadecimal digits that stand for the tasks: names, classes, numbers of examples, and
    the first examples of each part."""
    total = hashlib.sha256(f"{tasks.heads} {tasks.classes}".encode())
    for task in tasks:
        for part in (task.train, task.valid, task.test):
            if part is None:
                continue
            total.update(f"{task.name} {len(part)}".encode())
            batch = next(iterate(part, min(_LOOKED_AT, len(part))))
            for tensor in (batch.inputs, batch.targets):
                total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()[:12]
