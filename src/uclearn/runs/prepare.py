"""From a configuration of supervised learning to the objects that it needs, and on to what was
found: tasks, network, method; learned; measured."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from uclearn.errors import SettingError
from uclearn.measures.accuracy import (
    average_accuracy,
    backward_transfer,
    forgetting,
    forward_transfer,
    learning_accuracy,
)
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import MultiHead, has_heads, mlp, picture_network, torch_start
from uclearn.ranks import choose_device
from uclearn.runs.config import Learned
from uclearn.session import Journal, Observer
from uclearn.storage.records import read_run
from uclearn.tasks import Data, Task, TaskSequence, hold_out
from uclearn.tasks.benchmarks import Named, benchmark, load_tasks
from uclearn.tasks.own.function import load_function
from uclearn.training.nodes import NodeJournal, node_digest
from uclearn.training.session import explained, learn

if TYPE_CHECKING:
    from uclearn.runs.job import Job
    from uclearn.runs.supervised import NetworkSettings, RunConfig


def make_network(
    name: Named, settings: NetworkSettings, tasks: TaskSequence, seed: int
) -> nn.Module:
    """The plain network that the methods of a benchmark convert."""
    made = _drawn_as_he(name, settings, tasks, seed)
    own = settings.kind not in ("mlp", *PICTURE_NETWORKS)
    if settings.start == "torch" and not own:
        return torch_start(made, torch.Generator().manual_seed(seed))
    return made


def _drawn_as_he(
    name: Named, settings: NetworkSettings, tasks: TaskSequence, seed: int
) -> nn.Module:
    fixed = benchmark(name).network
    if fixed is not None:
        return fixed(seed)
    shape = tasks.input_shape
    outputs = None if tasks.heads else tasks.classes[0] or 1
    if settings.kind in PICTURE_NETWORKS:
        return picture_network(settings.kind, shape, outputs, seed=seed)
    if settings.kind != "mlp":
        return network_by(settings.kind, shape, outputs, seed)
    made = mlp(
        math.prod(shape),
        settings.hidden,
        outputs,
        dropout=settings.dropout,
        input_dropout=settings.input_dropout,
        seed=seed,
    )
    return made if len(shape) == 1 or settings.hidden == () else _flattening(made)


def _flattening(network: nn.Module) -> nn.Module:
    """The same for inputs of several dimensions."""
    if isinstance(network, MultiHead):
        network.trunk = _flattening(network.trunk)
        return network
    return nn.Sequential(nn.Flatten(), *network.children())


def network_by(named: str, shape: tuple[int, ...], outputs: int | None, seed: int) -> nn.Module:
    """What a function of the user's own makes: `module:function` is called with the shape of one
    example, the number of outputs (None: it must be a `uclearn.networks.MultiHead`) and a seed."""
    made = load_function(named, "--network")(shape, outputs, seed)
    if not isinstance(made, nn.Module) or (outputs is None) != has_heads(made):
        wanted = "a MultiHead, one head for each task" if outputs is None else "a torch module"
        raise SettingError(f"`--network {named}` must return {wanted}, got {type(made).__name__}.")
    return made


PICTURE_NETWORKS = ("conv", "resnet")
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
        config.described(),
        config.seed,
        data,
        config.tasks,
        config.data.split_after_augmentation,
        config.data.copies,
    )
    if config.data.judge == "validation":
        tasks = judged_by_validation(tasks, config.seed)
    model = make_network(config.described(), config.network, tasks, config.seed)
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


def learn_tasks(
    config: RunConfig, job: Job, journal: Journal | None, observer: Observer | None
) -> Learned:
    """Learn the tasks of a configuration; what was found, for the run's summary."""
    tasks, method = prepare(config, job.data, choose_device(job.device))
    plan = config.make_plan(job.checkpoint_seconds)
    outcome = learn(
        method,
        tasks,
        plan,
        folder=job.folder,
        journal=None if journal is None else NodeJournal(journal, method),
        observer=observer,
        score_of=explained if tasks[0].classes is None else None,
    )
    nodes = {} if journal is None else node_digest(read_run(job.folder).events)
    rows = outcome.accuracy_matrix
    if tasks[0].classes is None:  # worse than the mean is no better than nothing
        rows = [[value if math.isnan(value) else max(value, 0.0) for value in row] for row in rows]
    several = len(rows) > 1
    return Learned(
        method=method,
        seconds=outcome.seconds,
        accuracy_matrix=rows,
        average_accuracy=average_accuracy(rows),
        forgetting=forgetting(rows) if several else None,
        extra={
            "learning_accuracy": learning_accuracy(rows),
            "backward_transfer": backward_transfer(rows) if several else None,
            "forward_transfer": forward_transfer(rows, outcome.untrained) if several else None,
            "task_names": [task.name for task in tasks],
            # what a plan that leaves it open came to
            **({"precision": outcome.precision} if plan.precision == "auto" else {}),
            **({"nodes": nodes} if nodes else {}),
        },
    )
