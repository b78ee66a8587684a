"""What of an epoch is whose, where several processes learn one model."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator

import torch

from uclearn.ranks import Ranks
from uclearn.tasks import Batch, DataLike, iterate


def share(batch: Batch, ranks: Ranks) -> Batch:
    """This process's part of a batch; never empty (see `Ranks.share`)."""
    return batch if ranks.size == 1 else _rows(batch, ranks.share(len(batch.targets)))


def portion(data: DataLike, size: int, ranks: Ranks, uncut: int = 1) -> Iterator[Batch]:
    """This process's part of `data`, consecutive examples in batches of at most `size`.

    Args:
        data: examples; every process goes through the same ones.
        size: examples per batch.
        ranks: the processes.
        uncut: so many examples that belong together go to one process.
    """
    batches = iterate(data, size)
    if ranks.size == 1:
        return batches
    own = ranks.portion(len(data), uncut)
    if ranks.rank == ranks.size - 1:  # a loader's length need not be what it yields
        own = range(own.start, sys.maxsize)
    return cut(_in_one_order(batches), own)


def cut(batches: Iterable[Batch], positions: range) -> Iterator[Batch]:
    """What of an epoch of batches lies at `positions`, in batches.

    >>> parts = [torch.arange(3), torch.arange(3, 5)]
    >>> some = [Batch(part.float(), part, 0) for part in parts]
    >>> [batch.inputs.tolist() for batch in cut(some, range(2, 4))]
    [[2.0], [3.0]]
    """
    begin = 0
    for batch in batches:
        count = len(batch.targets)
        first, last = max(positions.start - begin, 0), min(positions.stop - begin, count)
        if first < last:
            yield _rows(batch, slice(first, last))
        begin += count


def _in_one_order(batches: Iterator[Batch]) -> Iterator[Batch]:
    """A loader that shuffles draws its order when it begins, from torch's own generator, which
    stands elsewhere in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def _rows(batch: Batch, rows: slice) -> Batch:
    task = batch.task if isinstance(batch.task, int) else batch.task[rows]
    return Batch(batch.inputs[rows].contiguous(), batch.targets[rows].contiguous(), task)
