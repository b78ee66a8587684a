"""A task, and tasks in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor

from uclearn.errors import SettingError, TaskError
from uclearn.tasks.data import IGNORED, Data, DataLike, Joined, generator
from uclearn.tasks.loader import FromLoader
from uclearn.tasks.transforms import Permute, Then


@dataclass(frozen=True, eq=False)
class Task:
    """One thing to learn: examples to train on, to choose the best epoch by and to be judged by.

    `index` is its place in the sequence and the number of its head; `classes` the number of its
    classes (labels 0 to classes - 1), None for regression. Examples take the number of their task;
    only those that are `Joined` from several tasks keep their own.
    """

    name: str
    index: int
    train: DataLike
    valid: DataLike | None = None
    test: DataLike | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        for part in ("train", "valid", "test"):
            data = getattr(self, part)
            if isinstance(data, Data | FromLoader) and data.task != self.index:
                data = replace(data, task=self.index)
                object.__setattr__(self, part, data)
            if self.classes is not None and isinstance(data, Data | Joined) and len(data):
                self._check_labels(part, data.all_targets(), self.classes)

    def validation(self) -> DataLike:
        """The data to choose the best epoch by: `valid`, or `train` itself where there is none."""
        return self.train if self.valid is None else self.valid

    @property
    def chooses(self) -> bool:
        """Whether what is learned is a choice among classes: there are some, and targets are labels
        as far as can be told without a look at a loader. Where targets are numbers, or a task is
        learned by acting, `classes` only counts outputs."""
        first = self.train.parts[0] if isinstance(self.train, Joined) else self.train
        numbers = isinstance(first, Data) and first.targets.is_floating_point()
        return self.classes is not None and not numbers

    @property
    def acts(self) -> bool:
        """Whether it is learned by acting: there are no stored examples."""
        return isinstance(self.train, Data) and len(self.train) == 0

    def _check_labels(self, part: str, labels: Tensor, classes: int) -> None:
        labels = labels[labels != IGNORED]
        if not len(labels):
            return
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            raise TaskError(
                f"The labels in `{part}` of task {self.name!r} must lie between 0 and "
                f"{classes - 1} (`classes` is {classes}), got labels from {low} to {high}."
            )


class TaskSequence(Sequence[Task]):
    """Tasks to be learned one after the other, numbered from 0.

    With `heads` every task has an output layer of its own and is told apart by its number
    (task-incremental). Without, one output layer serves them all. Either all tasks have the same
    classes (domain-incremental), or `classes` counts those of all tasks so far, and the output
    layer grows with it (class-incremental): labels are numbered through, and a task brings the
    next ones.
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
        counts = self.classes
        if not heads and len(set(counts)) > 1:
            whole = [count for count in counts if count is not None]
            if len(whole) < len(counts) or sorted(whole) != whole:
                raise TaskError(
                    "`heads` must be True where tasks have numbers of classes of their own, got "
                    f"False with classes {counts}. One output layer can only grow: count the "
                    "classes of all tasks so far."
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
        one = "one head that grows" if self.grows else "one head"
        kind = "a head each" if self.heads else one
        return f"TaskSequence({self.name!r}, {len(self)} tasks, {kind})"

    @property
    def classes(self) -> tuple[int | None, ...]:
        """The number of classes of each task, None for regression."""
        return tuple(task.classes for task in self.tasks)

    @property
    def grows(self) -> bool:
        """Whether tasks bring new classes to one output layer."""
        return not self.heads and len(set(self.classes)) > 1

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


def permuted(
    train: Data,
    test: Data,
    tasks: int,
    seed: int,
    valid: Data | None = None,
    name: str = "permuted",
) -> TaskSequence:
    """The same data `tasks` times, the features of each task in an order of its own.

    The orders are drawn from `seed`; that of the first task is drawn too. One head: the classes
    stay the same. The examples are stored once, whatever the number of tasks.
    """
    stream = generator(seed, "permutations")
    features = _example(train).numel()
    orders = (torch.randperm(features, generator=stream) for _ in range(_positive(tasks)))
    return _reordered(train, valid, test, orders, name)


def row_permuted(
    train: Data,
    test: Data,
    tasks: int,
    seed: int,
    valid: Data | None = None,
    name: str = "row-permuted",
) -> TaskSequence:
    """The same pictures `tasks` times, the rows of each task in an order of its own.

    As `permuted`, but the pixels of a row stay together. Prepared examples must be (height, width).
    """
    shape = tuple(_example(train).shape)
    if len(shape) != 2:
        raise TaskError(
            f"The prepared examples of `train` must be (height, width) pictures for their rows to "
            f"be permuted, got shape {shape}."
        )
    stream = generator(seed, "permutations")
    pixels = torch.arange(shape[0] * shape[1]).reshape(shape)
    orders = (
        pixels[torch.randperm(shape[0], generator=stream)].flatten()
        for _ in range(_positive(tasks))
    )
    return _reordered(train, valid, test, orders, name)


def split(
    train: Data,
    test: Data,
    groups: Sequence[Sequence[int]],
    order: Sequence[int] | None = None,
    valid: Data | None = None,
    names: Sequence[str] | None = None,
    name: str = "split",
) -> TaskSequence:
    """One task per group of classes, a head each; `groups` need not be of one size.

    Within a task the labels count from 0 in the order of the group. `order` says which group comes
    first, second, … (default: as given); `names` names the groups.
    """
    chosen = range(len(groups)) if order is None else order
    if sorted(chosen) != list(range(len(groups))):
        raise SettingError(
            f"`order` must hold each of the {len(groups)} groups once, got {list(chosen)}."
        )
    _check_groups(train, groups)
    titles = ["/".join(map(str, group)) for group in groups] if names is None else list(names)
    tasks = []
    for index, group in enumerate(groups[number] for number in chosen):
        held = None if valid is None else _classes_of(valid, group, index)
        own, judge = (_classes_of(data, group, index) for data in (train, test))
        tasks.append(Task(titles[chosen[index]], index, own, held, judge, len(group)))
    return TaskSequence(name, tasks, heads=True)


def hold_out(
    data: Data, fraction: float, seed: int, purpose: str = "hold-out"
) -> tuple[Data, Data]:
    """`data` in two: without, and with only, a random `fraction` of its examples.

    Drawn from `seed`; the examples keep their order in both parts. Different `purpose`s draw
    differently.
    """
    if not 0 < fraction < 1:
        raise SettingError(
            f"`fraction` must lie strictly between 0 and 1, got {fraction}. It is the share of the "
            "examples that is held out."
        )
    shuffled = torch.randperm(len(data), generator=generator(seed, purpose))
    held = round(len(data) * fraction)
    return data.subset(shuffled[held:].sort().values), data.subset(shuffled[:held].sort().values)


def in_sequence(name: str, tasks: Iterable[Task], heads: bool) -> TaskSequence:
    """Tasks from anywhere as one sequence, renumbered by their place in it."""
    return TaskSequence(name, [_at(index, task) for index, task in enumerate(tasks)], heads)


def with_validation(sequence: TaskSequence, fraction: float, seed: int) -> TaskSequence:
    """The same tasks, each with a random `fraction` of its training examples held out as `valid`.

    What is held out depends on a task's name and the seed, not on its place in the sequence.
    """
    tasks = []
    for task in sequence:
        if not isinstance(task.train, Data):
            raise TaskError(f"`train` of task {task.name!r} must be Data to hold out a part of it.")
        train, valid = hold_out(task.train, fraction, seed, f"validation {task.name}")
        tasks.append(replace(task, train=train, valid=valid))
    return TaskSequence(sequence.name, tasks, sequence.heads)


def _at(index: int, task: Task) -> Task:
    parts = [None if d is None else _of_task(d, index) for d in (task.valid, task.test)]
    train = _of_task(task.train, index)
    return replace(task, index=index, train=train, valid=parts[0], test=parts[1])


def _of_task(data: DataLike, index: int) -> DataLike:
    if isinstance(data, Joined):
        return replace(data, parts=tuple(replace(part, task=index) for part in data.parts))
    if isinstance(data, Data | FromLoader):
        return replace(data, task=index)
    raise TaskError(f"`train`, `valid` and `test` must be Data to be renumbered, got {type(data)}.")


def _reordered(
    train: Data, valid: Data | None, test: Data, orders: Iterable[Tensor], name: str
) -> TaskSequence:
    targets = train.all_targets()
    classes = None if targets.is_floating_point() else int(targets.max()) + 1
    tasks = []
    for index, order in enumerate(orders):
        held = None if valid is None else _permuted(valid, order, index)
        own, judge = (_permuted(data, order, index) for data in (train, test))
        tasks.append(Task(f"permutation {index + 1}", index, own, held, judge, classes))
    return TaskSequence(name, tasks, heads=False)


def _permuted(data: Data, order: Tensor, task: int) -> Data:
    last = Permute(order)
    prepare = last if data.prepare is None else Then((data.prepare, last))
    return replace(data, prepare=prepare, task=task)


def _classes_of(data: Data, group: Sequence[int], task: int) -> Data:
    """The examples of the classes in `group`, their labels counted from 0."""
    own = data.all_targets()
    members = torch.isin(own, torch.tensor(list(group)))
    within = torch.full((max(*group, int(own.max())) + 1,), -1)  # -1: never looked up
    for label, original in enumerate(group):
        within[original] = label
    labels = within if data.labels is None else within[data.labels]
    return replace(data.subset(members.nonzero().flatten()), labels=labels, task=task)


def _check_groups(train: Data, groups: Sequence[Sequence[int]]) -> None:
    known = set(train.all_targets().unique().tolist())
    for group in groups:
        unknown = sorted(set(group) - known)
        if unknown or len(set(group)) != len(group) or not group:
            raise TaskError(
                f"Each of `groups` must hold different classes that `train` has examples of, got "
                f"{list(group)}" + (f"; there are none of {unknown}." if unknown else ".")
            )


def _example(data: Data) -> Tensor:
    first: Tensor = data.batch(torch.tensor([0])).inputs[0]
    return first


def _positive(tasks: int) -> int:
    if tasks < 1:
        raise SettingError(f"`tasks` must be at least 1, got {tasks}.")
    return tasks
