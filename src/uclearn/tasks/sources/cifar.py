"""CIFAR-10 (binary and python versions) and CIFAR-100 (python version).

The python versions are pickles, and a pickle is a program. The published files need three names
from NumPy and nothing else; here these three are stand-ins that only remember what they are given,
and every other name is refused before anything is called.
"""

from __future__ import annotations

import pickle
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import Examples, TrainTest, data_folder, locate

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def load_cifar10(folder: str | Path | None = None) -> TrainTest:
    """CIFAR-10: uint8 pictures (examples, 3, 32, 32) and labels."""
    paths = locate(dataset("cifar10"), data_folder(folder))
    test = paths.pop("test_batch")
    images, labels = map(torch.cat, zip(*map(_read_cifar10, paths.values()), strict=True))
    train = Examples(images, labels, _CIFAR10_NAMES)
    return TrainTest(train, Examples(*_read_cifar10(test), _CIFAR10_NAMES))


def load_cifar100(folder: str | Path | None = None) -> TrainTest:
    """CIFAR-100 with its 100 fine labels: uint8 pictures (examples, 3, 32, 32) and labels."""
    paths = locate(dataset("cifar100"), data_folder(folder))
    names = _names(paths["meta"])
    train = read_python(paths["train"], b"fine_labels", len(names))
    test = read_python(paths["test"], b"fine_labels", len(names))
    return TrainTest(Examples(*train, names), Examples(*test, names))


def read_binary(path: Path) -> tuple[Tensor, Tensor]:
    """A file of the binary version: 3,073 bytes per example, the label and then the pixels."""
    content = np.fromfile(path, dtype=np.uint8)
    if not len(content) or len(content) % (_PIXELS + 1):
        raise DataError(
            f"{path}: expected a whole number of records of {_PIXELS + 1} bytes, "
            f"found {len(content)} bytes. Delete it and get it again."
        )
    records = torch.from_numpy(content).reshape(-1, _PIXELS + 1)
    labels = _checked_labels(path, records[:, 0].long(), len(_CIFAR10_NAMES))
    return records[:, 1:].reshape(-1, *_SHAPE), labels


def read_python(path: Path, key: bytes, classes: int) -> tuple[Tensor, Tensor]:
    """A file of the python version: a pickled dictionary, the labels under `key`."""
    content = read_pickle(path)
    if not {b"data", key} <= content.keys():
        raise DataError(
            f"{path}: expected the entries 'data' and '{key.decode()}', "
            f"found {sorted(map(_text, content))}."
        )
    pixels, labels = content[b"data"], content[key]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        found = pixels.shape if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise DataError(f"{path}: expected 'data' of shape (examples, {_PIXELS}), found {found}.")
    if len(pixels) != len(labels):
        raise DataError(
            f"{path}: expected {len(pixels)} labels, one for each picture, found {len(labels)}."
        )
    if not all(isinstance(label, int) for label in labels):
        raise DataError(f"{path}: expected whole numbers as labels, found something else.")
    # A copy: the bytes of a pickle must not be written to, tensors may be.
    images = torch.from_numpy(pixels.copy()).reshape(-1, *_SHAPE)
    return images, _checked_labels(path, torch.tensor(labels, dtype=torch.int64), classes)


def _read_cifar10(path: Path) -> tuple[Tensor, Tensor]:
    if path.suffix == ".bin":
        return read_binary(path)
    return read_python(path, b"labels", len(_CIFAR10_NAMES))


def _checked_labels(path: Path, labels: Tensor, classes: int) -> Tensor:
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(
            f"{path}: expected labels from 0 to {classes - 1}, found labels from "
            f"{int(labels.min())} to {int(labels.max())}."
        )
    return labels


def _names(path: Path) -> tuple[str, ...]:
    names = read_pickle(path).get(b"fine_label_names")
    if not isinstance(names, list) or len(names) != 100:
        raise DataError(f"{path}: expected 100 'fine_label_names', found {names!r:.80}.")
    return tuple(_text(name) for name in names)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def read_pickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a CIFAR pickle: its keys and strings are bytes, arrays are uint8."""
    try:
        with path.open("rb") as file:
            content = _Restricted(path, file, encoding="bytes").load()
    except (DataError, FileNotFoundError):
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
