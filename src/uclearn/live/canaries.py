"""Examples set apart, one canary for each task, and proof that none of them is trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError, TaskError
from uclearn.live.fingerprints import hashes, refuse_overlap, set_apart
from uclearn.live.gate import Gate
from uclearn.live.intake import examples, of_task
from uclearn.live.known import Known
from uclearn.tasks import Data
from uclearn.tasks.data import generator

_SHARE = 0.1


@dataclass(frozen=True)
class Portions:
    """New data, divided."""

    train: Data
    canary: Data | None
    left_out: int
    """Copies of canary examples that are in neither part."""


def guarded(known: Iterable[Known], gate: Gate | None) -> list[Known]:
    """The known tasks, each with the canary that `gate` gives it where it has none.

    With a gate, a task without a canary is refused: its loss would go unnoticed.
    """
    tasks = list(known)
    if gate is None:
        return tasks
    if any(task.classes is None for task in tasks):
        raise SettingError(
            "`gate` compares accuracies, but targets here are numbers, not labels. Leave `gate` "
            "out and judge the update by a measure of your own."
        )
    return [_with_canary(task, gate) for task in tasks]


def _with_canary(task: Known, gate: Gate) -> Known:
    given = gate.given(task.name)
    if given is None and task.canary is None:
        raise TaskError(
            f"Task {task.name!r} has no canary, so nobody would notice what it loses. Give it one: "
            f"Gate(canary={{{task.name!r}: (inputs, targets)}}), of examples that were not "
            "trained on."
        )
    if given is None:
        return task
    canary = of_task(examples(given, f"canary of {task.name}"), task.index)
    what = f"examples of the canary given for task {task.name!r} were trained on before"
    refuse_overlap(hashes(canary.inputs), task.seen, what)
    return replace(task, canary=canary)


def divide(data: Data, name: str, gate: Gate | None, known: Iterable[Known], seed: int) -> Portions:
    """The part of `data` to train on, and the part that will guard it.

    Args:
        data: the new data.
        name: of their task.
        gate: says what is set apart; None: nothing is.
        known: all tasks with their canaries, which must not be trained on.
        seed: for what is set apart.
    """
    tasks = list(known)
    portions = Portions(data, None, 0) if gate is None else _divided(data, name, gate, tasks, seed)
    own = hashes(portions.train.batch(torch.arange(len(portions.train))).inputs)
    for task in tasks:
        if task.canary is not None:
            canary = hashes(task.canary.batch(torch.arange(len(task.canary))).inputs)
            what = f"training examples are also in the canary of task {task.name!r}"
            refuse_overlap(own, canary, what)
    return portions


def _divided(data: Data, name: str, gate: Gate, tasks: list[Known], seed: int) -> Portions:
    if data.targets.is_floating_point():
        raise SettingError(
            "`gate` compares accuracies, but the targets of `data` are numbers, not labels. Leave "
            "`gate` out and judge the update by a measure of your own."
        )
    seen = torch.cat([torch.zeros(0, dtype=torch.int64), *(task.seen for task in tasks)])
    wanted = gate.canary
    if isinstance(wanted, Mapping):
        _require_names(wanted, [*(task.name for task in tasks), name])
        wanted = wanted.get(name, _SHARE) if name not in [t.name for t in tasks] else _SHARE
    if isinstance(wanted, int | float):
        count = round(wanted * len(data)) if wanted < 1 else int(wanted)
        order = torch.randperm(len(data), generator=generator(seed, f"canary of {name}"))
        return Portions(*set_apart(data, max(count, 1), order, seen))
    canary = examples(wanted, "canary")
    own = hashes(canary.inputs)
    refuse_overlap(hashes(data.inputs), own, "training examples are also in `canary`")
    refuse_overlap(own, seen, "examples of `canary` were trained on in an earlier update")
    _check_alike(data.inputs, canary)
    return Portions(data, canary, 0)


def _require_names(canaries: Mapping[str, object], names: list[str]) -> None:
    for name in canaries:
        if name not in names:
            raise SettingError(
                f"`canary` names a task that there is not: {name!r}. Tasks: {', '.join(names)}."
            )


def _check_alike(inputs: Tensor, canary: Data) -> None:
    if canary.inputs.shape[1:] != inputs.shape[1:]:
        raise DataError(
            f"`canary` must hold examples of the shape of `data`, {tuple(inputs.shape[1:])}, got "
            f"{tuple(canary.inputs.shape[1:])}."
        )
