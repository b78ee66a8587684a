"""A batch, what can yield batches, and the one way to go through an epoch of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from uclearn.errors import SettingError


class Batch(NamedTuple):
    """What a training step sees."""

    inputs: Tensor  # (batch, ...): prepared
    targets: Tensor  # (batch,) labels, or (batch, ...) for regression
    task: int | Tensor  # the task of all the examples, or (batch,) int64: the task of each


class DataLike(Protocol):
    """What can stand for the examples of a task: `Data`, `Joined`, `FromLoader`."""

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def batch(self, positions: Tensor) -> Batch:
        """The examples at `positions` (int64, (batch,)), prepared."""
        ...

    def subset(self, positions: Tensor) -> DataLike:
        """The examples at `positions` as data of their own, sharing storage."""
        ...

    def all_targets(self) -> Tensor:
        """The targets of all examples, in order."""
        ...

    def batches(
        self, size: int, generator: torch.Generator | None, start: int, drop_last: bool
    ) -> Iterator[Batch]:
        """One epoch of batches; see `iterate`, which checks the arguments first."""
        ...


def iterate(
    data: DataLike,
    size: int,
    generator: torch.Generator | None = None,
    start: int = 0,
    drop_last: bool = False,
) -> Iterator[Batch]:
    """One epoch of `data` in batches of `size`.

    With a `generator` the order is shuffled: one permutation drawn from it per call. `start` skips
    that many batches of the same order, so a generator in the state it had at the start of an epoch
    resumes that epoch anywhere.

    >>> from uclearn.tasks.data import Data
    >>> few = Data(torch.arange(5.0), torch.arange(5))
    >>> [batch.targets.tolist() for batch in iterate(few, 2, start=1)]
    [[2, 3], [4]]
    """
    if size < 1:
        raise SettingError(f"`size` must be at least 1, got {size}. It is the examples per batch.")
    if start < 0:
        raise SettingError(f"`start` must not be negative, got {start}. It is the batches to skip.")
    return data.batches(size, generator, start, drop_last)


def indexed_batches(
    data: DataLike, size: int, generator: torch.Generator | None, start: int, drop_last: bool
) -> Iterator[Batch]:
    """`DataLike.batches` for data whose examples can be picked by position."""
    count = len(data)
    order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
    whole = count // size * size if drop_last else count
    for begin in range(start * size, whole, size):
        yield data.batch(order[begin : min(begin + size, whole)])
