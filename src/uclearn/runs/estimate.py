"""How long runs will take on this machine, from a few real steps of each."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import facts
from uclearn.runs.prepare import prepare
from uclearn.runs.supervised import RunConfig
from uclearn.tasks import DataLike, iterate
from uclearn.training.loop import train_step
from uclearn.training.plan import Plan

_STEPS = 4
_VALIDATION = 1 / 3
"""A forward pass costs about a third of a step."""


def estimate_seconds(configs: Sequence[RunConfig], data: Path | None, workers: int) -> float:
    """Roughly, for all of them: each kind of run is tried for a few steps.

    Judging after tasks, VCL's start and refits on coresets come on top; other work on the machine
    as well.
    """
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(config.fingerprint(with_seed=False), []).append(config)
    total = sum(_seconds(group[0], data) * len(group) for group in groups.values())
    return total / max(1, min(workers, len(configs)))


def _seconds(config: RunConfig, data: Path | None) -> float:
    # what a method does once, before its first step, is no part of a step
    settings = config.document()
    for part, own in settings["settings"].items():
        own |= facts(part).without_start
    tasks, method = prepare(RunConfig.from_document(settings), data)
    plan = config.make_plan()
    begun = [method.begin_task(task) for task in tasks]
    step = _step_seconds(method, begun[-1].train, begun[-1].index, plan)
    batches = sum(math.ceil(len(task.train) / plan.batch_size) for task in begun)
    judged = 0.0 if plan.patience is None else _VALIDATION
    return step * batches * plan.epochs * (1 + judged)


def _step_seconds(method: Method, train: DataLike, index: int, plan: Plan) -> float:
    optimizer = replace(plan).make_optimizer(method.parameter_groups(plan.lr))
    method.train()
    times = []
    order = torch.Generator().manual_seed(0)
    for batch in iterate(train, plan.batch_size, order):
        begin = time.perf_counter()
        step = Step(index, batch.inputs, len(batch.targets), 0.5, len(train))
        train_step(method, batch, step, cross_entropy, optimizer)
        times.append(time.perf_counter() - begin)
        if len(times) > _STEPS:
            break
    return min(times)
