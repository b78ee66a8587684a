"""The small problem that `checks` runs methods on, and what all checks share: how they fail and
what they compare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from uclearn.errors import UclearnError
from uclearn.methods.contract import Method, Step, lent
from uclearn.methods.losses import cross_entropy, example_losses
from uclearn.networks import MultiHead, run
from uclearn.tasks.data import Batch, Data, generator, iterate
from uclearn.tasks.task import Task

Make = Callable[[nn.Module, Any], Method]
"""(network, a batch that it accepts) -> a freshly built method."""

FEATURES, WIDTH, CLASSES, EXAMPLES, BATCH = 6, 8, 3, 24, 8


def network(heads: bool, seed: int = 0) -> nn.Module:
    """Two hidden layers; with `heads` a trunk that gets a head with each task."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = [nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()]
        if heads:
            return MultiHead(nn.Sequential(*hidden), features=WIDTH)
        return nn.Sequential(*hidden, nn.Linear(WIDTH, CLASSES))


def tasks(count: int = 3) -> list[Task]:
    """Tasks of random points, each with a linear rule of its own for the classes."""
    stream = generator(0, "trial")
    return [_task(index, stream) for index in range(count)]


def _task(index: int, stream: torch.Generator) -> Task:
    inputs = torch.randn(EXAMPLES, FEATURES, generator=stream)
    labels = (inputs @ torch.randn(FEATURES, CLASSES, generator=stream)).argmax(dim=1)
    data = Data(inputs, labels, task=index)
    return Task(f"trial {index}", index, train=data, test=data, classes=CLASSES)


def built(make: Make, heads: bool, seed: int = 0) -> Method:
    """A fresh method around the small network."""
    return make(network(heads, seed), torch.zeros(1, FEATURES))


def learned(make: Make, heads: bool, count: int = 1) -> Method:
    """A method that has learned the first tasks."""
    method = built(make, heads)
    for task in tasks(count):
        begun = method.begin_task(task)
        train(method, begun, epochs=3)
        end(method, begun)
    return method


def train(method: Method, begun: Task, epochs: int = 1) -> None:
    """Some epochs with an optimiser of their own."""
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
    method.train()
    for epoch in range(epochs):
        order = generator(epoch, f"trial {begun.index}")
        for number, batch in enumerate(iterate(begun.train, BATCH, order)):
            step = step_for(batch, begun, number * BATCH / len(begun.train))
            method.begin_step(step)
            losses = _losses(method, batch)
            optimizer.zero_grad()
            (losses.mean() + method.penalty(step)).backward()
            method.adjust_gradients(step)
            optimizer.step()
            method.end_step(step)


def _losses(method: Method, batch: Batch) -> Tensor:
    outputs = run(method.model, batch.inputs, batch.task)
    return example_losses(cross_entropy, outputs, batch.targets)


def end(method: Method, begun: Task) -> None:
    """Consolidate, with everything that a loop offers."""

    def losses() -> Iterable[Tensor]:
        for batch in iterate(begun.train, BATCH):
            yield _losses(method, batch)

    with lent(method.model):
        method.end_task(begun, losses)


def pull(method: Method, task: Task, size: int = BATCH) -> tuple[Tensor, dict[str, Tensor]]:
    """The penalty on a task's first examples, and the gradient that it gives each parameter,
    through the loss or in `adjust_gradients`."""
    value, _, after = _half_step(method, task, size, penalty_alone=True)
    return value, after


def adjustment(method: Method, task: Task) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The gradients of a task's loss before and after `adjust_gradients`."""
    _, before, after = _half_step(method, task, BATCH, penalty_alone=False)
    return before, after


def _half_step(
    method: Method, task: Task, size: int, penalty_alone: bool
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """A step in which the optimiser does not move."""
    batch = first_batch(task, size)
    step = step_for(batch, task)
    method.train()
    method.begin_step(step)
    losses = _losses(method, batch)
    value = method.penalty(step)
    method.zero_grad()
    scalar = value if penalty_alone else losses.mean()
    if scalar.requires_grad:  # not with a closed form
        scalar.backward()
    before = gradients(method)
    method.adjust_gradients(step)
    after = gradients(method)
    method.end_step(step)
    method.zero_grad()
    return value.detach(), before, after


def gradients(method: Method) -> dict[str, Tensor]:
    """A copy of each parameter's gradient by its name in the model; zero where there is none."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in method.model.named_parameters()
    }


@torch.no_grad()
def predict(method: Method, task: Task) -> Tensor:
    """(batch, classes) for the first examples of a task, as an evaluation asks for them."""
    with method.inference(task.index) as lent_network:
        return run(lent_network, first_batch(task).inputs, task.index).clone()


def snapshot(method: Method) -> dict[str, Tensor]:
    """A copy of everything that the method remembers."""
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def first_batch(task: Task, size: int = BATCH) -> Batch:
    """The first examples of a task."""
    return next(iter(iterate(task.train, size)))


def step_for(batch: Batch, begun: Task, progress: float = 0.5) -> Step:
    """What a loop says of a batch."""
    return Step(begun.index, batch.inputs, len(batch.targets), progress, len(begun.train))


class ContractError(UclearnError, AssertionError):
    """A method does not keep the contract."""


class Check(Protocol):
    """One promise of the contract."""

    __name__: str

    def __call__(self, make: Make, heads: bool = False) -> None:
        """Raise `ContractError` if the method does not keep it."""
        ...


def seeded(promise: Callable[[Make, bool], None]) -> Check:
    """A check that always sees the same random numbers, and gives back those that were."""

    @functools.wraps(promise)
    def check(make: Make, heads: bool = False) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            promise(make, heads)

    return check


def weights(method: Method, heads: bool) -> dict[str, nn.Parameter]:
    """The parameters that the plain network has too: no uncertainties, gates or heads."""
    plain = dict(network(heads).named_parameters())
    found = {name: p for name, p in method.model.named_parameters() if name in plain}
    if not found:
        raise ContractError(
            "The network's parameters must keep their names in `method.model`, got none of them. "
            "Convert modules in place, as `uclearn.gaussian.convert` does."
        )
    return found


def nudge(weights: Iterable[Tensor]) -> None:
    """Move weights a little, as learning something else would."""
    with torch.no_grad():
        for weight in weights:
            weight += 0.1 * torch.randn_like(weight)


def behaviour(method: Method, task: Task) -> dict[str, Tensor]:
    """What a method does now, as numbers. Looking moves its random numbers on."""
    return {
        "the penalty": pull(method, task)[0],
        "predictions": predict(method, task),
        "predictions for the first task": predict(method, tasks(1)[0]),
    }


def compare(
    promise: str, before: Mapping[str, Tensor], after: Mapping[str, Tensor], remedy: str
) -> None:
    """Refuse any difference, bit for bit: what was promised, what differs, what to do."""
    differing = [
        name
        for name in {**before, **after}
        if name not in before or name not in after or not torch.equal(before[name], after[name])
    ]
    if differing:
        raise ContractError(f"{promise}, but these differ: {listed(differing)}. {remedy}")


def listed(names: Collection[str], most: int = 5) -> str:
    """Some names for a message.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(list(names)[:most]) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
