"""Examples, and batches of them.

A benchmark of ten permuted tasks is one set of bytes and ten permutations: `Data` keeps the stored
examples (often uint8, shared by all tasks) apart from what turns a batch of them into what a
network sees. Nothing is prepared before it is asked for, so memory does not grow with the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.fields import Examples

IGNORED = -100
"""A label that says nothing, as in torch's losses: padding of a text."""


class Batch(NamedTuple):
    """What a training step sees."""

    inputs: Examples  # (batch, ...): prepared
    targets: Tensor  # (batch,) labels, or (batch, ...) for regression
    task: int | Tensor  # the task of all the examples, or (batch,) int64: the task of each

    def to(self, device: torch.device) -> Batch:
        """The same on `device`."""
        if self.targets.device == device:
            return self
        task = self.task if isinstance(self.task, int) else self.task.to(device)
        return Batch(self.inputs.to(device), self.targets.to(device), task)

    def rows(self, rows: slice | Tensor) -> Batch:
        """Some of the examples."""
        task = self.task if isinstance(self.task, int) else self.task[rows]
        return Batch(self.inputs[rows].contiguous(), self.targets[rows].contiguous(), task)


class DataLike(Protocol):
    """What can stand for the examples of a task: `Data`, `Joined`, `FromLoader`.

    A class that inherits it needs no `batches` of its own if its examples can be picked.
    """

    def __len__(self) -> int:
        """How many examples there are."""

    def batch(self, positions: Tensor) -> Batch:
        """The examples at `positions` (int64, (batch,)), prepared."""

    def subset(self, positions: Tensor) -> DataLike:
        """The examples at `positions` as data of their own, sharing storage."""

    def all_targets(self) -> Tensor:
        """The targets of all examples, in order."""

    def batches(
        self, size: int, generator: torch.Generator | None, start: int, drop_last: bool
    ) -> Iterator[Batch]:
        """One epoch of batches; see `iterate`, which checks the arguments first."""
        count = len(self)
        shuffled = generator is not None
        order = torch.randperm(count, generator=generator) if shuffled else torch.arange(count)
        whole = count // size * size if drop_last else count
        for begin in range(start * size, whole, size):
            yield self.batch(order[begin : min(begin + size, whole)])


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

    >>> few = Data(torch.arange(5.0), torch.arange(5))
    >>> [batch.targets.tolist() for batch in iterate(few, 2, start=1)]
    [[2, 3], [4]]
    """
    if size < 1:
        raise SettingError(f"`size` must be at least 1, got {size}. It is the examples per batch.")
    if start < 0:
        raise SettingError(f"`start` must not be negative, got {start}. It is the batches to skip.")
    return data.batches(size, generator, start, drop_last)


@dataclass(frozen=True, eq=False)
class Data(DataLike):
    """Examples stored once, often shared between tasks, and how to make a batch of them.

    `inputs` (stored, ...), or `Fields` of them where a network is called by name, and `targets`
    (stored,) or (stored, ...) hold the stored examples; `rows`
    (int64) says which of them belong to this part (None: all). A batch is
    `prepare(inputs[rows[positions]])` with the targets `labels[targets[rows[positions]]]`, where
    `prepare` turns stored examples into the float batch and `labels` is a lookup table from stored
    label to label within the task. `task` is the number of the task the examples belong to.

    >>> digits = Data(torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([4, 7, 4, 7]))
    >>> digits.subset(torch.tensor([3, 1])).batch(torch.tensor([0])).inputs
    tensor([[3.]])
    """

    inputs: Examples
    targets: Tensor
    rows: Tensor | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    labels: Tensor | None = None
    task: int = 0

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise DataError(
                f"`inputs` and `targets` must hold the same number of examples, got "
                f"{len(self.inputs)} inputs and {len(self.targets)} targets."
            )
        if self.rows is not None:
            _check_rows(self.rows, len(self.inputs))

    def __len__(self) -> int:
        return len(self.inputs) if self.rows is None else len(self.rows)

    def batch(self, positions: Tensor) -> Batch:
        """The examples at `positions` (int64, (batch,)), prepared."""
        rows = self._stored(positions)
        inputs = self.inputs.index_select(0, rows)
        return Batch(
            inputs if self.prepare is None else self.prepare(inputs),
            self._labelled(self.targets.index_select(0, rows)),
            self.task,
        )

    def subset(self, positions: Tensor) -> Data:
        """The examples at `positions`, in that order; the storage is shared."""
        return replace(self, rows=self._stored(positions))

    def all_targets(self) -> Tensor:
        """The targets of all examples, in order."""
        if self.rows is None:
            return self._labelled(self.targets)
        return self._labelled(self.targets.index_select(0, self.rows))

    def _stored(self, positions: Tensor) -> Tensor:
        positions = positions.to(self.inputs.device)  # no copy where they already live together
        return positions if self.rows is None else self.rows.index_select(0, positions)

    def _labelled(self, targets: Tensor) -> Tensor:
        return targets if self.labels is None else self.labels[targets]


@dataclass(frozen=True, eq=False)
class Joined(DataLike):
    """Several parts as one: positions count through the parts, in the order they stand in.

    Each example keeps the number of its own task: a batch's `task` is that number where all parts
    belong to one task, otherwise a (batch,) tensor. `order` (int64, a permutation) lets the
    examples stand in another order than part after part, which a `subset` needs.
    """

    parts: tuple[Data, ...]
    order: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise DataError("`parts` must hold at least one part, got none.")

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def batch(self, positions: Tensor) -> Batch:
        """The examples at `positions` (int64, (batch,)), in that order, prepared."""
        owners, chosen, back = self._by_part(positions)
        pieces = [part.batch(own) for part, own in zip(self.parts, chosen, strict=True) if len(own)]
        inputs = torch.cat([piece.inputs for piece in pieces])
        targets = torch.cat([piece.targets for piece in pieces])
        back = back.to(inputs.device)
        return Batch(inputs.index_select(0, back), targets.index_select(0, back), self._of(owners))

    def subset(self, positions: Tensor) -> Joined:
        """The examples at `positions`, in that order; the storage is shared."""
        _, chosen, back = self._by_part(positions)
        kept = [part.subset(own) for part, own in zip(self.parts, chosen, strict=True)]
        return Joined(tuple(part for part in kept if len(part)) or (kept[0],), back)

    def all_targets(self) -> Tensor:
        """The targets of all examples, in order."""
        targets = torch.cat([part.all_targets() for part in self.parts])
        return targets if self.order is None else targets[self.order.to(targets.device)]

    def _by_part(self, positions: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """The part that owns each position, the positions within each part, and where each example
        then stands in the concatenation of the parts."""
        if self.order is not None:
            positions = self.order[positions]
        lengths = torch.tensor([len(part) for part in self.parts])
        ends = lengths.cumsum(0)
        owners = torch.bucketize(positions, ends, right=True)
        within = positions - (ends - lengths)[owners]
        grouped = owners.argsort(stable=True)
        counts = torch.bincount(owners, minlength=len(self.parts)).tolist()
        return owners, torch.split(within[grouped], counts), grouped.argsort()

    def _of(self, owners: Tensor) -> int | Tensor:
        numbers = [part.task for part in self.parts]
        return numbers[0] if len(set(numbers)) == 1 else torch.tensor(numbers)[owners]


def join(parts: Iterable[DataLike]) -> Joined:
    """One data set out of many, first to last; what is already joined is taken apart."""
    flat: list[Data] = []
    order: list[Tensor] = []
    begin = 0
    for part in parts:
        if isinstance(part, Joined):
            flat += part.parts
        elif isinstance(part, Data):
            flat.append(part)
        else:
            raise DataError(
                f"`parts` must hold Data or Joined, got {type(part).__name__}, whose examples "
                "cannot be picked one by one. Read it into memory first: `stored(part)`."
            )
        own = part.order if isinstance(part, Joined) else None
        order.append(begin + (torch.arange(len(part)) if own is None else own))
        begin += len(part)
    return Joined(tuple(flat), torch.cat(order) if order else None)


def _check_rows(rows: Tensor, stored: int) -> None:
    if rows.dtype != torch.int64 or rows.dim() != 1:
        raise DataError(
            f"`rows` must be an int64 tensor of one dimension, got {rows.dtype} "
            f"of shape {tuple(rows.shape)}."
        )
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= stored):
        raise DataError(
            f"`rows` must lie between 0 and {stored - 1} (the stored examples), "
            f"got values from {int(rows.min())} to {int(rows.max())}."
        )


def generator(seed: int, purpose: str) -> torch.Generator:
    """The stream of `seed` for `purpose`: always the same, and unrelated to every other purpose's.

    >>> first, again = generator(0, "permutations"), generator(0, "permutations")
    >>> bool(torch.rand((), generator=first) == torch.rand((), generator=again))
    True
    """
    digest = blake2b(f"{purpose}:{seed}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
