"""A user's own arrays: tensors and NumPy arrays, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.data import IGNORED
from uclearn.tasks.sources.dataset import Examples


def from_arrays(
    inputs: Tensor | NDArray[Any], targets: Tensor | NDArray[Any], *, places: bool = False
) -> Examples:
    """Inputs (examples, ...) and targets as they are, checked; nothing is copied if need not be.

    Whole-number targets of one dimension become int64 labels, others stay float (regression).

    Args:
        inputs: of whatever shape.
        targets: one for each example.
        places: an example may have several labels, one for each of its places (words, pixels);
            those of nothing are `IGNORED`.
    """
    values, wanted = _tensor(inputs, "inputs"), _tensor(targets, "targets")
    if len(values) != len(wanted):
        raise DataError(
            f"`inputs` and `targets` must hold the same number of examples, got {len(values)} "
            f"inputs and {len(wanted)} targets."
        )
    if not wanted.is_floating_point():
        wanted = wanted.long()
        meant = wanted[wanted != IGNORED] if places and wanted.dim() > 1 else wanted
        if (wanted.dim() != 1 and not places) or (len(meant) and int(meant.min()) < 0):
            raise DataError(
                "`targets` of whole numbers are labels: one for each example, counted from 0, got "
                f"shape {tuple(wanted.shape)}, smallest {int(wanted.min())}."
            )
    return Examples(values, wanted)


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
