"""What runs cost: numbers that each method keeps and sends (the paper's Table 1 and a little more).

For the benchmarks' own networks the numbers are counted in the real objects, for others, which may
be too large to be built, by the formulas in the methods' `facts`. A test holds the formulas to the
count, for every method on every benchmark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from uclearn.errors import SettingError
from uclearn.methods.contract import Method, Step
from uclearn.methods.facts import Sizes
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import METHODS, build, facts, parts
from uclearn.runs.prepare import make_network
from uclearn.runs.resolve import resolve
from uclearn.runs.supervised import NetworkSettings, RunConfig, check_network
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.tasks.benchmarks import Named, benchmark
from uclearn.training.begin import begin_task
from uclearn.training.loop import TaskLoop, train_step
from uclearn.training.nodes import parameter_count

BYTES = 4
"""Of a number: float32."""


class Footprint(NamedTuple):
    """Numbers, not bytes."""

    kept: int
    """Needed after a task to learn the next one, the network included."""
    learning: int
    """Held while a task is learned: the method's tensors, gradients, the optimiser's moments."""
    sent: int
    """Gradients that several processes average in each step."""

    def traffic(self, ranks: int) -> float:
        """Numbers that each process sends in a step, if all-reduce goes round in a ring.

        >>> Footprint(0, 0, sent=100).traffic(ranks=8)
        175.0
        """
        return 2 * (ranks - 1) / ranks * self.sent


def mlp_sizes(inputs: int, hidden: Sequence[int], classes: Sequence[int], *, heads: bool) -> Sizes:
    """Of a fully connected network.

    Args:
        inputs: features per example.
        hidden: width of each hidden layer.
        classes: of each task.
        heads: whether each task has an output layer of its own.

    >>> mlp_sizes(784, (400, 400), [10] * 10, heads=False)[:6]
    (478410, 810, 800, 0, 0, 10)
    """
    own = [(hidden[-1] + 1) * count for count in classes] if heads else [0]
    widths = [inputs, *hidden, *([] if heads else classes[-1:])]
    layers = tuple(itertools.pairwise(widths))
    return Sizes(
        shared=sum((before + 1) * after for before, after in layers),
        nodes=sum(widths[1:]),
        hidden=sum(hidden),
        head=own[-1],
        heads=sum(own),
        tasks=len(classes),
        layers=layers,
        features=hidden[-1] if heads else 0,
    )


def methods_with_formula() -> list[str]:
    """The methods that say by formula what they cost.

    >>> "ucl" in methods_with_formula()
    True
    """
    return [name for name in METHODS.sound()[0] if facts(name).cost is not None]


def expected(method: str, sizes: Sizes, variant: str | None = None) -> Footprint:
    """By formula, of the method or of one of its variants.

    >>> expected("ewc", mlp_sizes(784, (400, 400), [10] * 10, heads=False))
    Footprint(kept=1435230, learning=2870460, sent=478410)
    """
    formula = facts(method).cost if method in METHODS else None
    if formula is None:
        raise SettingError(
            "`method` must be one whose cost is known by formula "
            f"({', '.join(methods_with_formula())}), got {method!r}."
        )
    cost = formula(sizes) if variant is None else facts(method).variant_costs[variant](sizes)
    learning = cost.kept + cost.working + (1 + cost.moments) * cost.trained
    return Footprint(cost.kept, learning, cost.trained)


class Count(NamedTuple):
    """A line of the table."""

    label: str
    method: str
    footprint: Footprint


def parameter_table(
    name: Named, hidden: Sequence[int] | None = None, overrides: Mapping[str, Any] | None = None
) -> list[Count]:
    """All methods on the benchmark `name`, in its last task. Needs no data.

    Args:
        name: the benchmark, or its name.
        hidden: widths of hidden layers, for a network other than the benchmark's own. It is not
            built, and may be of any size.
        overrides: settings of the network that is built, by dotted key.

    >>> parameter_table("split-mnist")[0].footprint.kept
    269322
    >>> parameter_table("split-mnist", hidden=[8192] * 16)[0].footprint.kept
    1013268490
    """
    table: list[Count] = []
    if hidden is not None:
        sizes = sizes_with(name, hidden)
        for method in methods_with_formula():
            table.append(Count(method, method, expected(method, sizes)))
            for variant in facts(method).variant_costs:
                found = expected(method, sizes, variant)
                table.append(Count(f"{method}, {variant}", method, found))
        return table
    grows = benchmark(name).grows
    for method in METHODS.sound()[0]:
        if grows and facts(method).needs_task:
            continue
        common = dict(overrides or {})
        table.append(Count(method, method, count(name, method, common)))
        for variant, settings in facts(method).variants.items():
            chosen = common | {f"{method}.{key}": value for key, value in settings.items()}
            table.append(Count(f"{method}, {variant}", method, count(name, method, chosen)))
    return table


def sizes_with(name: Named, hidden: Sequence[int]) -> Sizes:
    """Of the benchmark's network with other hidden layers."""
    check_network(name, NetworkSettings(hidden=tuple(hidden)))
    chosen = benchmark(name)
    return mlp_sizes(math.prod(chosen.input_shape), hidden, chosen.classes, heads=chosen.heads)


def count(name: Named, method: str, overrides: dict[str, Any] | None = None) -> Footprint:
    """What one method has, in the objects that it really has in and after the last task."""
    cheap = {
        f"{part}.{key}": value
        for part in parts(method)
        for key, value in facts(part).without_start.items()
    }
    which = "paper" if benchmark(name).source is None else "default"
    config = resolve(name, method, preset=which, overrides={**cheap, **(overrides or {})})
    tasks = _stand_ins(name)
    model = make_network(name, config.network, tasks, seed=0)
    example = tasks[0].train.batch(torch.tensor([0, 1])).inputs
    made = build(method, model, example, config.keyword_arguments(tasks=len(tasks)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _learn_a_little(made, config, tasks)


def _learn_a_little(method: Method, config: RunConfig, tasks: TaskSequence) -> Footprint:
    """A step of the last two tasks; what there is in the last one, and after it."""
    for index in range(len(tasks)):
        begun = begin_task(method, tasks, index, config.seed)
        if index < len(tasks) - 2:
            continue
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


def _stand_ins(name: Named) -> TaskSequence:
    """The benchmark's tasks with a few random examples: as many, with as many classes."""
    chosen = benchmark(name)
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for index, classes in enumerate(chosen.classes):
        inputs = torch.randn(4, *chosen.input_shape, generator=generator)
        data = Data(inputs, torch.arange(4) % classes, task=index)
        tasks.append(Task(f"task {index}", index, data, test=data, classes=classes))
    return TaskSequence(chosen.name, tasks, chosen.heads)
