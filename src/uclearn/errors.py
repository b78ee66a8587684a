"""Every error uclearn raises on purpose. Each says which argument, what was expected, what was
found and what to do about it."""

import difflib
from collections.abc import Iterable


class UclearnError(Exception):
    """Base of all of them: `except UclearnError` catches whatever this library refuses."""


class SettingError(UclearnError, ValueError):
    """A setting has a value that makes no sense."""


class UnsupportedLayerError(UclearnError, TypeError):
    """The network holds a layer, or does an operation, that cannot be followed."""


class TaskError(UclearnError, RuntimeError):
    """A method, a task or a model was used out of order, or not as it was built."""


class DataError(UclearnError, ValueError):
    """Data on disk or in memory are not what they should be."""


class CheckpointError(UclearnError, RuntimeError):
    """A saved state is damaged, incomplete or of another kind."""


class SimulatorError(UclearnError, RuntimeError):
    """A simulated environment is missing, unsuitable, or failed while it was stepped."""


def check_choice(name: str, value: object, choices: Iterable[str], remark: str = "") -> None:
    """Refuse a `value` of the setting `name` that is none of the `choices`; `remark` ends the
    error."""
    known = tuple(choices)
    if value not in known:
        raise SettingError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.{remark}")


def check_count(name: str, value: int, meaning: str) -> None:
    """Refuse a `value` below 1 of the setting `name`, which counts what `meaning` says."""
    if value < 1:
        raise SettingError(f"`{name}` must be at least 1, got {value}. It counts {meaning}.")


def no_such(what: str, name: str, choices: Iterable[str]) -> str:
    """What to say of a `name` that is none of the `choices`.

    >>> no_such("method", "uclr", ["ewc", "ucl"])
    "There is no method 'uclr'. Did you mean 'ucl'? Known: ewc, ucl."
    """
    known = list(choices)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"There is no {what} {name!r}.{hint} Known: {', '.join(known) or 'none yet'}."
