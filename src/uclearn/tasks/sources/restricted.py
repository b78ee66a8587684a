"""Reading the pickles of CIFAR without running them.

A pickle is a program. The published files need three names from NumPy and nothing else; here these
three are stand-ins that only remember what they are given, and every other name is refused before
anything is called.
"""

from __future__ import annotations

import pickle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from uclearn.errors import DataError


def read_pickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a CIFAR pickle: its keys and strings are bytes, arrays are uint8."""
    try:
        with path.open("rb") as file:
            content = _Restricted(path, file, encoding="bytes").load()
    except DataError:
        raise
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged pickle fails in as many ways as there are opcodes
        raise DataError(
            f"{path}: expected a whole pickle, found a damaged or truncated one "
            f"({type(error).__name__}: {error}). Delete it and get it again."
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a dictionary, found {type(content).__name__}.")
    return {key: _unwrapped(path, value) for key, value in content.items()}


class _Type:
    """Stands for numpy.ndarray and numpy.dtype, called or handed around."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_Type):
    """What numpy.core.multiarray._reconstruct returns: an array whose state holds its content."""


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Type,
    ("numpy", "dtype"): _Type,
}


class _Restricted(pickle.Unpickler):
    def __init__(self, path: Path, file: Any, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for one of the three admitted names."""
        if (module, name) not in _ADMITTED:
            raise DataError(
                f"{self._path}: expected nothing but NumPy arrays in this pickle, found "
                f"{module}.{name}. Nothing was run. Do not use this file; get the published one."
            )
        return _ADMITTED[module, name]


def _unwrapped(path: Path, value: Any) -> Any:
    if not isinstance(value, _Type):
        return value
    try:
        _, shape, kind, column_order, content = value.state
        well_formed = (
            isinstance(value, _Array)
            and kind.arguments[0] in (b"u1", "u1")
            and not column_order
            and isinstance(content, bytes)
            and prod(shape) == len(content)
        )
    except (AttributeError, TypeError, ValueError, IndexError):
        well_formed = False
    if not well_formed:
        raise DataError(f"{path}: expected an array of unsigned bytes, found something else.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
