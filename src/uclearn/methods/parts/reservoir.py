"""A memory of fixed size in which every example ever seen is equally likely to be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import DataError, SettingError
from uclearn.tasks.data import Batch, Data, DataLike, generator
from uclearn.tasks.loader import FromLoader

_KEPT = ("inputs", "targets", "tasks")


class Reservoir(nn.Module):
    """Reservoir sampling (Vitter's algorithm R): of n examples seen, each is kept with probability
    size/n, whatever its class and its task, and without knowing n beforehand.

    Example number i (from 0) takes slot i while there is room; afterwards it draws a slot from
    0 to i and takes it if it is one of the first `size`. What is kept is what the network saw: the
    prepared inputs, the targets and the number of the task.

    Args:
        size: how many examples are kept at most.
        seed: of the draws; together with `seen` it is their whole state.

    >>> memory = Reservoir(size=3, seed=0)
    >>> memory.remember(Data(torch.arange(100.0), torch.arange(100), task=1))
    >>> len(memory), memory.seen.item(), memory.tasks.tolist()
    (3, 100, [1, 1, 1])
    """

    inputs: Tensor
    targets: Tensor
    tasks: Tensor
    seen: Tensor

    def __init__(self, size: int, seed: int = 0) -> None:
        super().__init__()
        if size < 1:
            raise SettingError(
                f"`size` must be at least 1, got {size}. It is the number of examples kept in "
                "memory, over all tasks together."
            )
        self.size, self.seed = size, seed
        self.register_buffer("inputs", torch.zeros(0))  # (kept, ...): shaped by the first example
        self.register_buffer("targets", torch.zeros(0))  # (kept,) or (kept, ...)
        self.register_buffer("tasks", torch.zeros(0, dtype=torch.int64))  # (kept,)
        self.register_buffer("seen", torch.tensor(0))

    def __len__(self) -> int:
        """How many examples are kept now."""
        return len(self.tasks)

    def task_count(self) -> int:
        """How many tasks the kept examples come from."""
        return int(self.tasks.bincount().count_nonzero())

    def remember(self, data: DataLike) -> None:
        """Let all examples of `data` pass by; only those that stay are looked at."""
        if isinstance(data, FromLoader):
            for batch in data.batches(1, None, 0, False):
                slots, positions = self._draw(len(batch.targets))
                self._keep(slots, _rows(batch, positions))
        elif len(data):
            slots, positions = self._draw(len(data))
            self._keep(slots, data.batch(positions))

    def batch(self, slots: Tensor) -> Batch:
        """What is kept in `slots` (int64, (batch,))."""
        slots = slots.to(self.tasks.device)
        return Batch(self.inputs[slots], self.targets[slots], self.tasks[slots])

    def parts(self, slots: Tensor) -> tuple[list[Data], Tensor]:
        """What is kept in `slots` as data per task, and the place of each slot among them."""
        slots = slots.to(self.tasks.device)
        owners = self.tasks[slots]
        order = owners.argsort(stable=True)
        parts = [
            Data(self.inputs, self.targets, rows=slots[owners == task], task=int(task))
            for task in owners.unique()
        ]
        return parts, order.argsort()

    def _draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Slots to fill, ascending, and for each which of the next `count` examples stays in it."""
        seen = int(self.seen)
        numbers = torch.arange(seen, seen + count)
        uniform = torch.rand(
            count, generator=generator(self.seed, f"reservoir {seen}"), dtype=torch.float64
        )
        drawn = (uniform * (numbers + 1)).long()  # 0 to i
        slots = torch.where(numbers < self.size, numbers, drawn)
        taken = slots < self.size
        # several may take the same slot: the last one stays
        last = torch.full((self.size,), -1)
        last.scatter_reduce_(0, slots[taken], torch.arange(count)[taken], "amax")
        filled = (last >= 0).nonzero().flatten()
        self.seen += count
        return filled, last[filled]

    def _keep(self, slots: Tensor, batch: Batch) -> None:
        if not len(slots):
            return
        tasks = torch.as_tensor(batch.task).expand(len(slots))
        kept = len(self)
        for name, arrived in zip(_KEPT, (batch.inputs, batch.targets, tasks), strict=True):
            old = getattr(self, name)
            arrived = arrived.detach().to(self.seen.device)
            if kept == 0:
                old = arrived.new_empty((0, *arrived.shape[1:]))
            _check_alike(name, old, arrived)
            room = old.new_empty((max(int(slots[-1]) + 1 - kept, 0), *old.shape[1:]))
            grown = torch.cat([old, room])
            setattr(self, name, grown.index_copy_(0, slots.to(grown.device), arrived))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        for name in _KEPT:  # they come in the shape that was saved
            saved = state_dict.get(prefix + name)
            if saved is not None:
                setattr(self, name, torch.empty_like(saved, device=self.seen.device))
        super()._load_from_state_dict(state_dict, prefix, *others)


def _rows(batch: Batch, positions: Tensor) -> Batch:
    task = batch.task if isinstance(batch.task, int) else batch.task[positions]
    return Batch(batch.inputs[positions], batch.targets[positions], task)


def _check_alike(name: str, old: Tensor, arrived: Tensor) -> None:
    if old.shape[1:] != arrived.shape[1:] or old.dtype != arrived.dtype:
        raise DataError(
            f"The memory holds {name} of shape {tuple(old.shape[1:])} and type {old.dtype} each, "
            f"got {tuple(arrived.shape[1:])} and {arrived.dtype}. Prepare the examples of all "
            "tasks alike: pad or resize them."
        )
