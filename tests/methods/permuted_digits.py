"""A small real problem for the methods that hold weights by springs, and a loop that learns it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn import Method
from uclearn.tasks.sources import digits

Examples = tuple[Tensor, Tensor]
SEEDS = range(5)


def permuted_digits(seed: int, tasks: int = 2) -> list[Examples]:
    """The digits several times, each time with the pixels in another order."""
    images, labels = digits.load()
    generator = torch.Generator().manual_seed(seed)
    x = images[:900].flatten(1).float() / 16
    orders = [torch.randperm(64, generator=generator) for _ in range(tasks)]
    return [(x[:, order], labels[:900]) for order in orders]


def network(seed: int, *sizes: int) -> nn.Sequential:
    """Linear layers with ReLU between, drawn from the seed."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width, following in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def learn(method: Method, x: Tensor, y: Tensor, epochs: int = 8, batch: int = 32) -> None:
    """One task, with every word of the contract in its place."""
    optimizer = torch.optim.Adam(method.parameter_groups(lr=2e-3))
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            method.begin_step()
            loss = F.cross_entropy(method.model(x[rows]), y[rows]) + method.penalty()
            optimizer.zero_grad()
            loss.backward()
            method.adjust_gradients()
            optimizer.step()
            method.end_step()
    end(method, x, y)


def end(method: Method, x: Tensor, y: Tensor) -> None:
    """The end of a task in a loop of one's own."""

    def losses() -> Iterator[Tensor]:
        for start in range(0, len(x), 256):
            outputs = method.model(x[start : start + 256])
            yield F.cross_entropy(outputs, y[start : start + 256], reduction="none")

    method.end_task(losses=losses, inputs=x.split(256))


def accuracy(method: Method, x: Tensor, y: Tensor) -> float:
    with method.inference() as net, torch.no_grad():
        return float((net(x).argmax(1) == y).float().mean())


def after_two_tasks(make: type[Method], seed: int, **settings: object) -> tuple[float, float]:
    """Accuracy on the first and on the second task."""
    method = make(network(seed, 64, 64, 10), **settings)
    torch.manual_seed(seed)
    tasks = permuted_digits(seed)
    for x, y in tasks:
        learn(method, x, y)
    return accuracy(method, *tasks[0]), accuracy(method, *tasks[1])


def over_seeds(make: type[Method], **settings: object) -> tuple[float, float]:
    """Mean accuracies on the first and on the second task, over five seeds."""
    runs = [after_two_tasks(make, seed, **settings) for seed in SEEDS]
    return mean(first for first, _ in runs), mean(second for _, second in runs)
