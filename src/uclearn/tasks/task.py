"""A task, and tasks in sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from uclearn.errors import TaskError
from uclearn.tasks.data import Data, DataLike, Joined


@dataclass(frozen=True, eq=False)
class Task:
    """One thing to learn: examples to train on, to choose the best epoch by and to be judged by.

    `index` is its place in the sequence and the number of its head; `classes` the number of its
    classes (labels 0 to classes - 1), None for regression.
    """

    name: str
    index: int
    train: DataLike
    valid: DataLike | None = None
    test: DataLike | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.classes is None:
            return
        for part in ("train", "valid", "test"):
            data = getattr(self, part)
            if isinstance(data, Data | Joined) and len(data):
                self._check_labels(part, data.all_targets(), self.classes)

    def validation(self) -> DataLike:
        """The data to choose the best epoch by: `valid`, or `train` itself where there is none."""
        return self.train if self.valid is None else self.valid

    def _check_labels(self, part: str, labels: Tensor, classes: int) -> None:
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            raise TaskError(
                f"The labels in `{part}` of task {self.name!r} must lie between 0 and "
                f"{classes - 1} (`classes` is {classes}), got labels from {low} to {high}."
            )


class TaskSequence(Sequence[Task]):
    """Tasks to be learned one after the other, numbered from 0.

    With `heads` every task has an output layer of its own and is told apart by its number
    (task-incremental). Without, one output layer serves them all (domain-incremental), so all tasks
    must have the same classes.
    """

    def __init__(self, name: str, tasks: Sequence[Task], heads: bool) -> None:
        self.name = name
        self.tasks = tuple(tasks)
        self.heads = heads
        for position, task in enumerate(self.tasks):
            if task.index != position:
                raise TaskError(
                    f"`tasks` must be numbered in order: task {task.name!r} stands at place "
                    f"{position} and has `index` {task.index}."
                )
        if not heads and len(set(self.classes)) > 1:
            raise TaskError(
                f"`heads` must be True where tasks differ in their number of classes, got False "
                f"with classes {self.classes}. One output layer cannot serve them all."
            )

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        return self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        kind = "a head each" if self.heads else "one head"
        return f"TaskSequence({self.name!r}, {len(self)} tasks, {kind})"

    @property
    def classes(self) -> tuple[int | None, ...]:
        """The number of classes of each task, None for regression."""
        return tuple(task.classes for task in self.tasks)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one prepared example of the first task."""
        return tuple(self.tasks[0].train.batch(torch.tensor([0])).inputs.shape[1:])

    def take(self, count: int) -> TaskSequence:
        """The first `count` tasks."""
        if not 1 <= count <= len(self):
            raise TaskError(
                f"`count` must lie between 1 and {len(self)} (the tasks of {self.name}), "
                f"got {count}."
            )
        return TaskSequence(self.name, self.tasks[:count], self.heads)
