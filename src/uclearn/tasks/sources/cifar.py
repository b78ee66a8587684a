"""CIFAR-10 (binary and python versions) and CIFAR-100 (python version)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.examples import Examples, TrainTest
from uclearn.tasks.sources.locate import locate
from uclearn.tasks.sources.location import data_folder
from uclearn.tasks.sources.restricted import read_pickle

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_CIFAR10_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def load_cifar10(folder: str | Path | None = None) -> TrainTest:
    """CIFAR-10: uint8 pictures (examples, 3, 32, 32) and labels."""
    paths = locate(dataset("cifar10"), data_folder(folder))
    train = [_read_cifar10(path) for role, path in paths.items() if role != "test_batch"]
    images = torch.cat([part[0] for part in train])
    labels = torch.cat([part[1] for part in train])
    test = _read_cifar10(paths["test_batch"])
    return TrainTest(
        Examples(images, labels, _CIFAR10_NAMES), Examples(test[0], test[1], _CIFAR10_NAMES)
    )


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
    for needed in (b"data", key):
        if needed not in content:
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
    return _pictures(pixels), _checked_labels(path, _integers(path, labels), classes)


def _read_cifar10(path: Path) -> tuple[Tensor, Tensor]:
    if path.suffix == ".bin":
        return read_binary(path)
    return read_python(path, b"labels", len(_CIFAR10_NAMES))


def _pictures(pixels: NDArray[np.uint8]) -> Tensor:
    # A copy: the bytes of a pickle must not be written to, tensors may be.
    return torch.from_numpy(pixels.copy()).reshape(-1, *_SHAPE)


def _integers(path: Path, labels: Sequence[object]) -> Tensor:
    if not all(isinstance(label, int) for label in labels):
        raise DataError(f"{path}: expected whole numbers as labels, found something else.")
    return torch.tensor(labels, dtype=torch.int64)


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
