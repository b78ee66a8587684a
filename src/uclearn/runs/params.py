"""The paper's Table 1 and a little more: how many numbers each method keeps and sends.

For the benchmarks' own networks they are counted in the real objects, for others by `footprint`'s
formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from uclearn.methods.contract import Method, Step
from uclearn.methods.facts import Sizes
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import METHODS, build, facts, parts
from uclearn.runs.footprint import Footprint, expected, methods_with_formula, mlp_sizes
from uclearn.runs.job import parameter_count
from uclearn.runs.prepare import make_network
from uclearn.runs.resolve import resolve
from uclearn.runs.supervised import NetworkSettings, RunConfig, check_network
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.tasks.benchmarks import benchmark
from uclearn.training.loop import TaskLoop, train_step


class Count(NamedTuple):
    """A line of the table."""

    label: str
    method: str
    footprint: Footprint


def parameter_table(name: str, hidden: Sequence[int] | None = None) -> list[Count]:
    """All methods on the benchmark `name`, in its last task. Needs no data.

    Args:
        name: of the benchmark.
        hidden: widths of hidden layers, for a network other than the benchmark's own. It is not
            built, and may be of any size.

    >>> parameter_table("split-mnist")[0].footprint.kept
    269322
    >>> parameter_table("split-mnist", hidden=[8192] * 16)[0].footprint.kept
    1013268490
    """
    if hidden is not None:
        sizes = sizes_with(name, hidden)
        known = methods_with_formula()
        return [Count(method, method, expected(method, sizes)) for method in known]
    table = []
    for method in METHODS.sound()[0]:
        table.append(Count(method, method, count(name, method)))
        for variant, settings in facts(method).variants.items():
            chosen = {f"{method}.{key}": value for key, value in settings.items()}
            table.append(Count(f"{method}, {variant}", method, count(name, method, chosen)))
    return table


def sizes_with(name: str, hidden: Sequence[int]) -> Sizes:
    """Of the benchmark's network with other hidden layers."""
    check_network(name, NetworkSettings(hidden=tuple(hidden)))
    chosen = benchmark(name)
    return mlp_sizes(math.prod(chosen.input_shape), hidden, chosen.classes, heads=chosen.heads)


def count(name: str, method: str, overrides: dict[str, Any] | None = None) -> Footprint:
    """What one method has, in the objects that it really has in and after the last task."""
    cheap = {
        f"{part}.{key}": value
        for part in parts(method)
        for key, value in facts(part).without_start.items()
    }
    config = resolve(name, method, preset="paper", overrides={**cheap, **(overrides or {})})
    tasks = _stand_ins(name)
    model = make_network(name, config.network, tasks, seed=0)
    example = tasks[0].train.batch(torch.tensor([0, 1])).inputs
    made = build(method, model, example, config.keyword_arguments(tasks=len(tasks)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _learn_a_little(made, config, tasks)


def _learn_a_little(method: Method, config: RunConfig, tasks: TaskSequence) -> Footprint:
    """A step of the last two tasks; what there is in the last one, and after it."""
    for task in tasks[:-2]:
        method.begin_task(task)
    for task in tasks[-2:]:
        begun = method.begin_task(task)
        loop = TaskLoop(method, begun, config.make_plan(), cross_entropy)
        batch = begun.train.batch(torch.arange(len(begun.train)))
        step = Step(begun.index, batch.inputs, len(batch.targets), 0.5, len(begun.train))
        method.train()
        train_step(method, batch, step, cross_entropy, loop.optimizer)
        gradients = [p.grad for group in loop.optimizer.param_groups for p in group["params"]]
        sent = _numbers(gradients)
        moments = _numbers(t for held in loop.optimizer.state.values() for t in held.values())
        learning = _numbers([*method.parameters(), *method.buffers()]) + sent + moments
        loop.finish()
    return Footprint(parameter_count(method), learning, sent)


def _numbers(tensors: Iterable[object]) -> int:
    """As many as are floating-point; single numbers do not count."""
    return sum(
        tensor.numel()
        for tensor in tensors
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.dim() > 0
    )


def _stand_ins(name: str) -> TaskSequence:
    """The benchmark's tasks with a few random examples: as many, with as many classes."""
    chosen = benchmark(name)
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for index, classes in enumerate(chosen.classes):
        inputs = torch.randn(4, *chosen.input_shape, generator=generator)
        data = Data(inputs, torch.arange(4) % classes, task=index)
        tasks.append(Task(f"task {index}", index, data, test=data, classes=classes))
    return TaskSequence(name, tasks, chosen.heads)
