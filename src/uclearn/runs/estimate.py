"""How long runs will take on this machine: each kind of run is tried for a few steps.

Judging after tasks, VCL's start and refits on coresets come on top; other work on the machine as
well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import facts
from uclearn.runs.config import Configuration
from uclearn.runs.prepare import prepare
from uclearn.tasks import DataLike, iterate
from uclearn.training.begin import begin_task
from uclearn.training.loop import train_step
from uclearn.training.plan import Plan

if TYPE_CHECKING:
    from uclearn.runs.supervised import RunConfig

_STEPS = 4
_VALIDATION = 1 / 3
"""A forward pass costs about a third of a step."""


class Estimate(NamedTuple):
    """Of runs that differ in their seeds alone."""

    config: Configuration
    """One of them."""
    runs: int
    seconds: float
    """Of all of them, one after the other."""


def estimates(configs: Sequence[Configuration], data: Path | None = None) -> Iterator[Estimate]:
    """Of each kind of run among `configs`, as soon as it has been tried; `kinds` counts them."""
    for group in kinds(configs):
        first = group[0]
        seconds = first.kind_of_run().seconds(first, data)
        yield Estimate(first, len(group), seconds * len(group))


def kinds(configs: Sequence[Configuration]) -> list[list[Configuration]]:
    """Runs that differ in their seeds alone, together."""
    groups: dict[str, list[Configuration]] = {}
    for config in configs:
        groups.setdefault(config.fingerprint(with_seed=False), []).append(config)
    return list(groups.values())


def supervised_seconds(config: RunConfig, data: Path | None) -> float:
    """Of one run that learns from data."""
    # what a method does once, before its first step, is no part of a step
    settings = config.document()
    for part, own in settings["settings"].items():
        own |= facts(part).without_start
    tasks, method = prepare(type(config).from_document(settings), data)
    plan = config.make_plan()
    begun = [begin_task(method, tasks, index, plan.seed) for index in range(len(tasks))]
    step = _step_seconds(method, begun[-1].train, begun[-1].index, plan)
    batches = sum(math.ceil(len(task.train) / plan.batch_size) for task in begun)
    judged = 0.0 if plan.patience is None else _VALIDATION
    return step * batches * plan.epochs * (1 + judged)


def _step_seconds(method: Method, train: DataLike, index: int, plan: Plan) -> float:
    optimizer = plan.make_optimizer(method.parameter_groups(plan.lr))
    autocast = plan.autocast(next(method.parameters()).device)
    method.train()
    times = []
    order = torch.Generator().manual_seed(0)
    for batch in iterate(train, plan.batch_size, order):
        begin = time.perf_counter()
        step = Step(index, batch.inputs, len(batch.targets), 0.5, len(train))
        train_step(method, batch, step, cross_entropy, optimizer, autocast=autocast)
        times.append(time.perf_counter() - begin)
        if len(times) > _STEPS:
            break
    return min(times)
