"""From a configuration to the objects that a run needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.runs.config import RunConfig
from uclearn.runs.networks import make_network
from uclearn.tasks import Data, Task, TaskSequence, hold_out
from uclearn.tasks.benchmarks import load_tasks

_JUDGED_SHARE = 0.1
"""Of a task's training data, held out to be judged by where it has no validation data."""


class Prepared(NamedTuple):
    """Tasks, and a method that has learned none of them."""

    tasks: TaskSequence
    method: Method


def prepare(
    config: RunConfig, data: Path | None = None, device: torch.device | str = "cpu"
) -> Prepared:
    """Load the tasks and build the method.

    Args:
        config: what to prepare.
        data: the folder that holds the data sets.
        device: where the method lives; built on the CPU, it is the same on all of them.
    """
    tasks = load_tasks(
        config.benchmark,
        config.seed,
        data,
        config.tasks,
        config.data.split_after_augmentation,
        config.data.copies,
    )
    if config.data.judge == "validation":
        tasks = judged_by_validation(tasks, config.seed)
    model = make_network(config.benchmark, config.network, tasks, config.seed)
    example = tasks[0].train.batch(torch.tensor([0, 1])).inputs
    settings = config.keyword_arguments(tasks=len(tasks))
    return Prepared(tasks, build(config.method, model, example, settings).to(device))


def judged_by_validation(tasks: TaskSequence, seed: int) -> TaskSequence:
    """The same tasks with their test data out of reach: they are judged by their validation data,
    or, where these are the training data themselves, by a tenth that is held out of training."""
    return TaskSequence(tasks.name, [_judged(task, seed) for task in tasks], tasks.heads)


def _judged(task: Task, seed: int) -> Task:
    if task.valid is not None or not isinstance(task.train, Data):
        return replace(task, test=task.validation())
    train, judge = hold_out(task.train, _JUDGED_SHARE, seed, f"judge {task.name}")
    return replace(task, train=train, test=judge)
