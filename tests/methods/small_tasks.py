"""Small real tasks, and the loop of one's own that trains on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from uclearn import Adam
from uclearn.methods.contract import Method, Step
from uclearn.methods.parts.fit import mean_loss
from uclearn.methods.parts.per_example import importance
from uclearn.networks import MultiHead, run
from uclearn.tasks import Data, Task, iterate
from uclearn.tasks.data import generator
from uclearn.tasks.sources import digits

MakeOptimizer = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


def digit_pairs(count: int = 5, *, pictures: bool = False) -> list[Task]:
    """0 or 1, 2 or 3, ...: handwritten digits, two thirds to train on and one third to test."""
    images, labels = digits.load()
    inputs = images.float().div(16)
    inputs = inputs.unsqueeze(1) if pictures else inputs.flatten(1)
    tasks = []
    for index in range(count):
        rows = torch.isin(labels, torch.tensor([2 * index, 2 * index + 1])).nonzero().flatten()
        rows = rows[torch.randperm(len(rows), generator=generator(index, "pairs"))]
        train, test = rows[:240], rows[240:]
        target = labels - 2 * index
        tasks.append(
            Task(
                f"{2 * index} or {2 * index + 1}",
                index,
                Data(inputs[train], target[train], task=index),
                test=Data(inputs[test], target[test], task=index),
                classes=2,
            )
        )
    return tasks


def permuted_digits(count: int = 3, train: int = 600) -> list[Task]:
    """All ten digits, the pixels of each task in an order of its own."""
    images, labels = digits.load()
    inputs = images.float().div(16).flatten(1)
    tasks = []
    for index in range(count):
        order = torch.randperm(64, generator=generator(index, "pixels"))
        own = inputs[:, order]
        tasks.append(
            Task(
                f"permutation {index}",
                index,
                Data(own[:train], labels[:train], task=index),
                test=Data(own[1200:], labels[1200:], task=index),
                classes=10,
            )
        )
    return tasks


def mlp(width: int = 50, *, heads: bool = True, outputs: int = 2, seed: int = 0) -> nn.Module:
    """64 pixels, two hidden layers; with `heads` a trunk without output layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        if heads:
            return MultiHead(nn.Sequential(*hidden), width, seed)
        return nn.Sequential(*hidden, nn.Linear(width, outputs))


def sgd(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups)


def adam(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return Adam(groups)


def learn(
    method: Method,
    task: Task,
    *,
    epochs: int = 5,
    lr: float = 0.05,
    batch: int = 32,
    optimizer: MakeOptimizer = sgd,
    seed: int = 0,
    end: bool = True,
) -> Task:
    """Train on one task in the order of the contract; what `begin_task` returned is returned."""
    begun = method.begin_task(task)
    moves = optimizer(method.parameter_groups(lr))
    order = generator(seed, f"order {task.index}")
    last = max(-(-len(begun.train) // batch) - 1, 1)
    method.model.train()
    for _ in range(epochs):
        for number, (x, y, of) in enumerate(iterate(begun.train, batch, order)):
            step = Step(task.index, x, len(y), number / last, len(begun.train))
            method.begin_step(step)
            loss = mean_loss(run(method.model, x, of), y) + method.penalty(step)
            moves.zero_grad()
            loss.backward()
            method.adjust_gradients(step)
            moves.step()
            method.end_step(step)
    if end:
        method.end_task(begun)
    return begun


@torch.no_grad()
def predict(method: Method, task: Task) -> Tensor:
    """(examples, classes) for the test examples of a task."""
    assert task.test is not None
    with method.inference(task.index) as network:
        return run(network, task.test.batch(torch.arange(len(task.test))).inputs, task.index)


def accuracy(method: Method, task: Task) -> float:
    assert task.test is not None
    hits = predict(method, task).argmax(1) == task.test.all_targets()
    return hits.float().mean().item()


def forgetting(method: Method, tasks: list[Task], **settings: Any) -> tuple[float, float]:
    """Learn all tasks; how much accuracy the earlier ones lose on average, and what is left of
    all of them at the end."""
    fresh = []
    for task in tasks:
        learn(method, task, **settings)
        fresh.append(accuracy(method, task))
    final = [accuracy(method, task) for task in tasks]
    lost = [then - now for then, now in zip(fresh[:-1], final[:-1], strict=True)]
    return sum(lost) / len(lost), sum(final) / len(final)


def fisher_diagonal(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    losses: Iterable[Tensor],
    fisher_batch: int = 1,
) -> dict[str, Tensor]:
    """By name what EWC measures: the mean of squared gradients."""
    found = importance(model, list(parameters.values()), losses, "square", fisher_batch)
    return dict(zip(parameters, found, strict=True))
