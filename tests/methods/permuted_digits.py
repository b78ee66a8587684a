"""A small real problem for the methods that hold weights by springs, and a loop that learns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn import Adam, Method
from uclearn.tasks.sources import digits

Examples = tuple[Tensor, Tensor]


_digits = cache(digits.load)


def permuted_digits(seed: int, tasks: int = 2) -> list[Examples]:
    """The digits several times, each time with the pixels in another order."""
    images, labels = _digits()
    generator = torch.Generator().manual_seed(seed)
    x = images[:900].flatten(1).float() / 16
    orders = [torch.randperm(64, generator=generator) for _ in range(tasks)]
    return [(x[:, order], labels[:900]) for order in orders]


def network(seed: int, *sizes: int) -> nn.Sequential:
    """Linear layers with ReLU between, drawn from the seed."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width, following in pairwise(sizes):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def learn(method: Method, x: Tensor, y: Tensor, epochs: int = 6, batch: int = 32) -> None:
    """One task, with every word of the contract in its place."""
    optimizer = Adam(method.parameter_groups(lr=2e-3))
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


def after_two_tasks(method: Method, seed: int) -> tuple[float, float]:
    """Accuracy on the first and on the second task."""
    torch.manual_seed(seed)
    tasks = permuted_digits(seed)
    for x, y in tasks:
        learn(method, x, y)
    return accuracy(method, *tasks[0]), accuracy(method, *tasks[1])


@cache
def finetuned(seed: int) -> tuple[float, float]:
    """The same, where nothing is held."""
    return after_two_tasks(Method(network(seed, 64, 64, 10)), seed)


def check_it_forgets_less(make: Callable[[nn.Module], Method]) -> None:
    """Than fine-tuning, clearly, in every one of five seeds; and it still learns."""
    for seed in range(5):
        first, second = after_two_tasks(make(network(seed, 64, 64, 10)), seed)
        forgotten, _ = finetuned(seed)
        assert first > forgotten + 0.1, f"seed {seed}"
        assert second > 0.7, f"seed {seed}"
