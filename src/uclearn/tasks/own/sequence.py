"""From examples to tasks: how they are laid out (the same for every seed), and the tasks of one
seed, with a part of each for the test and inputs at the scale of the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.tasks.data import Data
from uclearn.tasks.own.divide import check_enough, set_apart
from uclearn.tasks.own.examples import PARTS, Examples
from uclearn.tasks.task import Task, TaskSequence, permuted
from uclearn.tasks.transforms import Normalise, Scale

if TYPE_CHECKING:
    from uclearn.tasks.own.source import Asked

_TRAIN, _VALID, _TEST = range(len(PARTS))


@dataclass(frozen=True, eq=False)
class Layout:
    """Which examples are a task's, and which of their classes are."""

    names: tuple[str, ...]
    tasks: Tensor
    """(examples,) the number of the task of each."""
    groups: tuple[tuple[int, ...], ...]
    """By task its classes, in the order of their labels; empty for regression."""
    heads: bool
    permuted: bool = False

    @property
    def classes(self) -> tuple[int | None, ...]:
        """How many a task has; None for regression."""
        return tuple(len(group) or None for group in self.groups)


def lay_out(examples: Examples, asked: Asked) -> Layout:
    """Tasks as the file has them, or by `split` or `permute`; whatever makes no sense is refused
    here, before anything is learned."""
    path = asked.path
    every = tuple(range(len(examples.classes)))
    if examples.tasks is not None and (asked.permute is not None or asked.split is not None):
        which = "split" if asked.permute is None else "permute"
        raise SettingError(
            f"`--{which}` makes tasks, but {path} has {len(examples.task_names)} of its own "
            f"({_few(examples.task_names)}). Leave one of the two out."
        )
    if asked.permute is not None:
        names = tuple(f"permutation {k + 1}" for k in range(asked.permute))
        none = torch.zeros(len(examples.targets), dtype=torch.int64)
        layout = Layout(names, none, (every,) * asked.permute, heads=False, permuted=True)
    elif asked.split is not None:
        layout = _by_classes(examples, asked.split, asked)
    elif examples.tasks is not None:
        layout = _as_told(examples, asked)
    else:
        kinds = f" of {len(every)} classes" if every else ""
        raise SettingError(
            f"{path} holds examples{kinds} but no tasks. Say how to make some: "
            + ("`--split 2` (so many classes each), " if every else "")
            + "`--permute 10` (so many tasks, features in another order in each), or name a "
            "column or a folder for each task."
        )
    if examples.classes and len(every) < 2:
        raise DataError(
            f"{path}: expected at least two classes, found only {examples.classes[0]!r}. If it "
            "holds numbers to be predicted, say `--target COLUMN`."
        )
    _check_parts(examples, layout, asked)
    return layout


def _by_classes(examples: Examples, each: int, asked: Asked) -> Layout:
    count = len(examples.classes)
    if not count:
        raise SettingError("`--split` divides classes, and a regression has none. Try `--permute`.")
    if each < 2 or count % each == 1:
        raise SettingError(
            f"`--split` must leave at least two classes to every task, got {each} for the {count} "
            f"classes of {asked.path}."
        )
    groups = [tuple(range(first, min(first + each, count))) for first in range(0, count, each)]
    names = tuple("/".join(examples.classes[c] for c in group) for group in groups)
    tasks = examples.targets.div(each, rounding_mode="floor")
    return _scenario(examples, asked, names, tasks, groups)


def _as_told(examples: Examples, asked: Asked) -> Layout:
    assert examples.tasks is not None
    if not examples.classes:
        empty: tuple[tuple[int, ...], ...] = ((),) * len(examples.task_names)
        return Layout(examples.task_names, examples.tasks, empty, heads=False)
    groups = [
        tuple(examples.targets[examples.tasks == task].unique().tolist())
        for task in range(len(examples.task_names))
    ]
    return _scenario(examples, asked, examples.task_names, examples.tasks, groups)


def _scenario(
    examples: Examples,
    asked: Asked,
    names: tuple[str, ...],
    tasks: Tensor,
    groups: list[tuple[int, ...]],
) -> Layout:
    alike = len(set(groups)) == 1
    scenario = asked.scenario or ("domain" if alike else "task")
    every = tuple(range(len(examples.classes)))
    if scenario == "task":
        for name, group in zip(names, groups, strict=True):
            if len(group) < 2:
                raise DataError(
                    f"{asked.path}: task {name!r} has only the class "
                    f"{examples.classes[group[0]]!r}, and there is nothing to tell apart. Give it "
                    "another, or say `--scenario class`: one output layer that grows."
                )
        return Layout(names, tasks, tuple(groups), heads=True)
    if scenario == "domain" and not alike:
        for name, group in zip(names, groups, strict=True):
            absent = [examples.classes[c] for c in every if c not in group]
            if absent:
                raise DataError(
                    f"{asked.path}: task {name!r} has no example of class {absent[0]!r}, and with "
                    "`--scenario domain` all tasks have the same classes. Add some, or say "
                    "`--scenario task` or `--scenario class`."
                )
    if scenario == "class":
        groups = _so_far(groups)
    return Layout(names, tasks, tuple(groups), heads=False)


def _so_far(groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """By task the classes of all tasks up to it, in the order in which they came."""
    known: tuple[int, ...] = ()
    found = []
    for group in groups:
        known = (*known, *(c for c in group if c not in known))
        found.append(known)
    return found


def _check_parts(examples: Examples, layout: Layout, asked: Asked) -> None:
    """Every task can be trained and tested, and what is tested can have been learned."""
    if examples.parts is None:
        strata, where = _strata(examples, layout, asked)
        remedy = "Add examples, remove it, or say yourself what is for the test: a column `split`."
        check_enough(strata, examples.groups, where, remedy)
        return
    for task, name in enumerate(layout.names[:1] if layout.permuted else layout.names):
        own = layout.tasks == task
        for part in (_TRAIN, _TEST):
            if not bool((own & (examples.parts == part)).any()):
                raise DataError(
                    f"{asked.path}: task {name!r} has no example whose split is {PARTS[part]!r}. "
                    "Give it some, or leave the split to `--test 0.2`."
                )
        for c in examples.targets[own].unique().tolist() if examples.classes else ():
            mine = own & (examples.targets == c)
            if not bool((mine & (examples.parts == _TRAIN)).any()):
                first = int(mine.nonzero()[0])
                raise DataError(
                    f"{asked.path}{examples.row(first)}: the label {examples.classes[c]!r} of task "
                    f"{name!r} stands only in the test or validation part, so it cannot be "
                    "learned. Put some of its examples into the training part, or remove them."
                )
    if examples.groups is not None:
        for group in examples.groups.unique().tolist():
            mine = examples.groups == group
            if len(examples.parts[mine].unique()) > 1:
                first = int(mine.nonzero()[0])
                raise DataError(
                    f"{asked.path}{examples.row(first)}: its group stands in several parts of the "
                    "split, and groups must stay whole. Correct the split or leave out the group."
                )


def _strata(examples: Examples, layout: Layout, asked: Asked) -> tuple[Tensor, list[str]]:
    """What is divided evenly: classes within tasks, in regression tasks."""
    count = max(len(examples.classes), 1)
    classes = examples.targets if examples.classes else torch.zeros_like(layout.tasks)
    keys, strata = (layout.tasks * count + classes).unique(return_inverse=True)
    where: list[str] = []
    for key in keys.tolist():
        task, c = divmod(key, count)
        first = examples.row(int((strata == len(where)).nonzero()[0]))
        label = f"class {examples.classes[c]!r}" if examples.classes else "all of it"
        of = "" if layout.permuted else f" in task {layout.names[task]!r}"
        where.append(f"{asked.path}{first}: {label}{of}")
    return strata, where


def make_tasks(
    examples: Examples, layout: Layout, asked: Asked, name: str, seed: int
) -> TaskSequence:
    """The tasks of a seed."""
    parts = examples.parts
    if parts is None:
        parts = _drawn_parts(examples, layout, asked, seed)
    of_first = (layout.tasks == 0) & (parts == _TRAIN)
    prepare = scale_of(examples, of_first.nonzero().flatten())
    targets = examples.targets
    if not examples.classes:  # numbers of any size: at the scale of the first task, too
        begin = targets[of_first]
        spread = float(begin.std(correction=0)) or 1.0
        targets = ((targets - begin.mean()) / spread)[:, None]
    whole = Data(examples.inputs, targets, prepare=prepare)
    if layout.permuted:
        train, valid, test = (_rows(whole, parts == p) for p in (_TRAIN, _VALID, _TEST))
        held = valid if len(valid) else None
        return permuted(train, test, len(layout.names), seed, held, name)
    tasks = []
    for task, (title, group) in enumerate(zip(layout.names, layout.groups, strict=True)):
        own = layout.tasks == task
        lookup = None if not group else _lookup(group, len(examples.classes))
        train, valid, test = (
            replace(_rows(whole, own & (parts == p)), labels=lookup, task=task)
            for p in (_TRAIN, _VALID, _TEST)
        )
        held = valid if len(valid) else None
        tasks.append(Task(title, task, train, held, test, len(group) or None))
    return TaskSequence(name, tasks, layout.heads)


def _drawn_parts(examples: Examples, layout: Layout, asked: Asked, seed: int) -> Tensor:
    strata, _ = _strata(examples, layout, asked)
    parts = torch.full((len(strata),), _TRAIN)
    parts[set_apart(strata, asked.test, seed, "own test", examples.groups)] = _TEST
    if asked.valid:
        left = (parts == _TRAIN).nonzero().flatten()
        groups = None if examples.groups is None else examples.groups[left]
        share = asked.valid / (1 - asked.test)
        apart = set_apart(strata[left], share, seed, "own validation", groups)
        parts[left[apart]] = _VALID
    return parts


def scale_of(examples: Examples, rows: Tensor) -> Callable[[Tensor], Tensor]:
    """What brings inputs to mean 0 and deviation 1 by the `rows` that are there first: features
    one by one, pictures channel by channel."""
    known = examples.inputs[rows[:: max(1, len(rows) // 10_000)]].float()
    if known.dim() == 4:  # (rows, channels, height, width)
        peak = 255.0 if examples.inputs.dtype == torch.uint8 else 1.0
        mean, spread = known.mean((0, 2, 3)) / peak, known.std((0, 2, 3), correction=0) / peak
        spread = torch.where(spread > 0, spread, torch.ones_like(spread))
        return Normalise(tuple(mean.tolist()), tuple(spread.tolist()), peak)
    there = ~known.isnan()
    count = there.sum(0).clamp(min=1)
    filled = known.nan_to_num(0.0)
    mean = filled.sum(0) / count
    variance = torch.where(there, filled - mean, torch.zeros(())).square().sum(0) / count
    spread = torch.where(variance > 0, variance.sqrt(), torch.ones(()))
    if examples.scaled is not None:
        mean = torch.where(examples.scaled, mean, torch.zeros(()))
        spread = torch.where(examples.scaled, spread, torch.ones(()))
    return Scale(mean, spread)


def _rows(data: Data, wanted: Tensor) -> Data:
    return data.subset(wanted.nonzero().flatten())


def _lookup(group: tuple[int, ...], classes: int) -> Tensor:
    within = torch.full((classes,), -1)
    for label, original in enumerate(group):
        within[original] = label
    return within


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
