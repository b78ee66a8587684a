"""Whatever the data come as: examples that can be learned, or a refusal with its reason."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from uclearn.errors import DataError
from uclearn.tasks import Data, DataLike, FromLoader, Joined, stored
from uclearn.tasks.sources.arrays import from_arrays

NewData: TypeAlias = Any
"""`(inputs, targets)` as tensors or arrays, a torch `Dataset` or `DataLoader`, or `Data`."""


def examples(data: NewData, name: str = "data") -> Data:
    """`data` in memory, checked: not empty, finite, labels counted from 0; all of task 0.

    `name` is what errors call it. Whole-number targets are labels, others are for regression.

    >>> len(examples((np.zeros((5, 2), dtype=np.float32), [0, 1, 0, 1, 1])))
    5
    """
    inputs, targets = _pair(data, name)
    if not len(inputs):
        raise DataError(f"`{name}` must hold at least one example, got none.")
    try:
        checked = from_arrays(inputs, targets)
    except DataError as error:
        text = str(error).replace("`inputs`", f"The inputs of `{name}`")
        raise DataError(text.replace("`targets`", f"The targets of `{name}`")) from error
    return Data(checked.inputs, checked.labels)


def inputs_only(x: Any) -> Tensor:
    """A batch to predict for, as a tensor, checked."""
    if not len(x):
        raise DataError("`x` must hold at least one example, got none.")
    try:
        return from_arrays(x, torch.zeros(len(x))).inputs
    except DataError as error:
        raise DataError(str(error).replace("`inputs`", "`x`")) from error


def of_task(data: Data, index: int) -> Data:
    """The same examples as those of task `index`."""
    return replace(data, task=index)


def _pair(data: NewData, name: str) -> tuple[Any, Any]:
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], np.asarray(data[1]) if isinstance(data[1], list) else data[1]
    if isinstance(data, TorchDataset):
        if not isinstance(data, Sized):
            raise DataError(f"`{name}` must have a length; this {type(data).__name__} has none.")
        if not len(data):
            raise DataError(f"`{name}` must hold at least one example, got none.")
        data = DataLoader(data, batch_size=1024)
    if isinstance(data, DataLoader):
        data = FromLoader(data)
    if isinstance(data, Data | Joined | FromLoader):
        return _prepared(stored(data))
    raise DataError(
        f"`{name}` must be (inputs, targets), a torch Dataset or DataLoader, or "
        f"uclearn.tasks.Data, got {type(data).__name__}."
    )


def _prepared(data: DataLike) -> tuple[Tensor, Tensor]:
    if not len(data):
        return torch.zeros(0), torch.zeros(0)
    pieces = [data.batch(rows) for rows in torch.arange(len(data)).split(1024)]
    return torch.cat([p.inputs for p in pieces]), torch.cat([p.targets for p in pieces])
