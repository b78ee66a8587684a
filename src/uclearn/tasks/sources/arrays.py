"""A user's own arrays: tensors, NumPy arrays, npz files."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.dataset import Examples, TrainTest

_KEYS = ("x_train", "y_train", "x_test", "y_test")


def from_arrays(inputs: Tensor | NDArray[Any], targets: Tensor | NDArray[Any]) -> Examples:
    """Inputs (examples, ...) and targets as they are, checked; nothing is copied if need not be.

    Whole-number targets of one dimension become int64 labels, others stay float (regression).
    """
    values, wanted = _tensor(inputs, "inputs"), _tensor(targets, "targets")
    if len(values) != len(wanted):
        raise DataError(
            f"`inputs` and `targets` must hold the same number of examples, got {len(values)} "
            f"inputs and {len(wanted)} targets."
        )
    if not wanted.is_floating_point():
        wanted = wanted.long()
        if wanted.dim() != 1 or (len(wanted) and int(wanted.min()) < 0):
            raise DataError(
                "`targets` of whole numbers are labels: one for each example, counted from 0, got "
                f"shape {tuple(wanted.shape)}, smallest {int(wanted.min())}."
            )
    return Examples(values, wanted)


def load_npz(path: str | Path) -> TrainTest:
    """An npz file with the arrays x_train, y_train, x_test and y_test."""
    path = Path(path).expanduser()
    try:
        with path.open("rb") as file:  # opened here, so that it is closed whatever NumPy finds
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path}: expected a whole npz file, found a damaged one.")
            file.seek(0)
            arrays = np.load(file, allow_pickle=False)
            if any(key not in arrays for key in _KEYS):
                found = ", ".join(arrays.files)
                raise DataError(f"{path}: expected the arrays {', '.join(_KEYS)}, found {found}.")
            return TrainTest(_part(path, arrays, "train"), _part(path, arrays, "test"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: expected an npz file, found nothing.") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path}: expected a whole npz file, found a damaged one ({error})."
        ) from error


def _part(path: Path, file: Any, name: str) -> Examples:
    try:
        return from_arrays(file[f"x_{name}"], file[f"y_{name}"])
    except ValueError as error:  # an array of objects, or one that `from_arrays` refuses
        raise DataError(f"{path}: x_{name} and y_{name}: {error}") from error


def _tensor(values: Tensor | NDArray[Any], name: str) -> Tensor:
    try:
        tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))
    except TypeError as error:
        raise DataError(f"`{name}` must hold numbers, got {np.asarray(values).dtype}.") from error
    if tensor.dim() == 0:
        raise DataError(f"`{name}` must have a dimension for the examples, got a single number.")
    if tensor.dtype == torch.float64:
        tensor = tensor.to(torch.get_default_dtype())  # what networks are made of
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise DataError(f"`{name}` must be finite, got NaN or infinity.")
    return tensor
