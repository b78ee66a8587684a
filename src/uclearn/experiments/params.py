"""The paper's Table 1: how many numbers each method keeps, counted in the real objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from uclearn.experiments.config import RunConfig
from uclearn.experiments.kept import parameters_kept
from uclearn.experiments.networks import make_network
from uclearn.experiments.overrides import resolve
from uclearn.methods.contract import Method, Step
from uclearn.methods.registry import METHODS, build
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.tasks.benchmarks import benchmark
from uclearn.training.loop import TaskLoop, train_step
from uclearn.training.losses import cross_entropy

_SHAPES = {
    "mnist": (784,),
    "notmnist-small": (784,),
    "notmnist-large": (784,),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "omniglot": (1, 28, 28),
}
_DIGITS_SHAPE = (64,)


class Count(NamedTuple):
    """A line of the table."""

    label: str
    method: str
    kept: int
    """After all tasks, the network included."""


def parameter_table(name: str) -> list[Count]:
    """All methods on the benchmark `name`, after all its tasks. Needs no data.

    >>> parameter_table("split-mnist")[0]
    Count(label='finetuning', method='finetuning', kept=269322)
    """
    table = []
    for method in METHODS:
        table.append(Count(method, method, count_kept(name, method)))
        if method == "ucl":  # the paper's count has an uncertainty for each bias, too
            kept = count_kept(name, method, {"ucl.noisy_bias": True})
            table.append(Count("ucl, noisy_bias", method, kept))
    return table


def count_kept(name: str, method: str, overrides: dict[str, Any] | None = None) -> int:
    """What one method keeps, from the state that it really has after a step of the last task."""
    cheap = {"vcl.start_epochs": 1} if method.startswith("vcl") else {}
    config = resolve(name, method, preset="paper", overrides={**cheap, **(overrides or {})})
    tasks = _stand_ins(name)
    model = make_network(name, config.network, tasks, seed=0)
    example = tasks[0].train.batch(torch.tensor([0, 1])).inputs
    made = build(method, model, example, config.keyword_arguments(tasks=len(tasks)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _learn_a_little(made, config, tasks)
    return parameters_kept(made)


def _learn_a_little(method: Method, config: RunConfig, tasks: TaskSequence) -> None:
    begun = [method.begin_task(task) for task in tasks][-1]
    loop = TaskLoop(method, begun, config.make_plan(), cross_entropy)
    batch = begun.train.batch(torch.arange(len(begun.train)))
    step = Step(begun.index, batch.inputs, len(batch.targets), 0.5, len(begun.train))
    method.train()
    train_step(method, batch, step, cross_entropy, loop.optimizer)
    loop.finish()


def _stand_ins(name: str) -> TaskSequence:
    """The benchmark's tasks with a few random examples: as many, with as many classes."""
    chosen = benchmark(name)
    shape = _SHAPES[chosen.data[0]] if chosen.data else _DIGITS_SHAPE
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for index, classes in enumerate(chosen.classes):
        inputs = torch.randn(4, *shape, generator=generator)
        data = Data(inputs, torch.arange(4) % classes, task=index)
        tasks.append(Task(f"task {index}", index, data, test=data, classes=classes))
    return TaskSequence(name, tasks, chosen.heads)
