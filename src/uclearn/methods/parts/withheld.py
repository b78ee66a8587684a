"""Which examples of a task make its coreset, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from uclearn.tasks.data import Data, DataLike, iterate, join
from uclearn.tasks.task import Task

Choice = Literal["random", "k-center"]


def k_center(points: Tensor, count: int, first: int = 0) -> Tensor:
    """`count` of the points, each time the one furthest from those chosen before.

    The largest distance of any point to the nearest chosen one is at most twice the smallest that
    is possible (Gonzalez 1985).

    Args:
        points: (points, ...).
        count: how many to choose.
        first: where to start.

    Returns:
        (count,) int64: their positions, in the order of the choice.

    >>> k_center(torch.tensor([[0.0], [1.0], [10.0], [4.0]]), 3)
    tensor([0, 2, 3])
    """
    flat = points.flatten(1)
    squares = flat.square().sum(1)
    nearest = torch.full_like(squares, torch.inf)  # squared distance to the nearest chosen point
    chosen = []
    for _ in range(count):
        chosen.append(first)
        # |p - c|^2 as |p|^2 + |c|^2 - 2 p c: one matrix product, nothing of the size of the points
        nearest = torch.minimum(nearest, squares + squares[first] - 2 * flat.mv(flat[first]))
        nearest[first] = -torch.inf  # twins of it may be chosen, itself not again
        first = int(nearest.argmax())
    return torch.tensor(chosen)


def _random(data: DataLike, count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(len(data), generator=generator)[:count]


def _covering(data: DataLike, count: int, generator: torch.Generator) -> Tensor:
    points = torch.cat([batch.inputs.flatten(1).float() for batch in iterate(data, 4096)])
    return k_center(points, count, int(torch.randint(len(data), (), generator=generator)))


CHOICES: dict[str, Callable[[DataLike, int, torch.Generator], Tensor]] = {
    "random": _random,
    "k-center": _covering,
}
"""(data, how many, randomness) -> positions, by the name of the choice."""


class Withheld(nn.Module):
    """The coresets of all tasks so far: prepared inputs, targets and the number of classes."""

    def put(self, task: Task, data: DataLike) -> None:
        """Keep `data` as the coreset of `task`, in place of what it had."""
        batch = data.batch(torch.arange(len(data)))
        classes = -1 if task.classes is None else task.classes
        self.register_buffer(f"inputs_{task.index}", batch.inputs.clone())
        self.register_buffer(f"targets_{task.index}", batch.targets.clone())
        self.register_buffer(f"classes_{task.index}", torch.tensor(classes))

    def tasks(self) -> list[int]:
        """The numbers of the tasks that have one."""
        return sorted(int(n.removeprefix("inputs_")) for n in self._buffers if n[:7] == "inputs_")

    def data(self, task: int) -> Data:
        """The coreset of one task."""
        return Data(self._kept("inputs", task), self._kept("targets", task), task=task)

    def as_task(self, index: int, tasks: Sequence[int]) -> Task:
        """The coresets of some tasks as what task number `index` is to learn."""
        classes = int(self._kept("classes", index))
        train = self.data(tasks[0]) if len(tasks) == 1 else join(map(self.data, tasks))
        return Task(f"coreset {index}", index, train, classes=None if classes < 0 else classes)

    def _kept(self, what: str, task: int) -> Tensor:
        return self.get_buffer(f"{what}_{task}")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # a saved method may have met other tasks than this one: room for theirs, and only theirs
        saved = {k.removeprefix(prefix): v for k, v in state_dict.items() if k.startswith(prefix)}
        for name in [name for name in self._buffers if name not in saved]:
            delattr(self, name)
        for name, tensor in saved.items():
            self.register_buffer(name, torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *others)
