"""How good a network is, how large and how fast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from uclearn.networks.heads import run
from uclearn.tasks import DataLike, iterate
from uclearn.training.evaluate import Score, correct


@dataclass(frozen=True)
class Judge:
    """The mean score of a network on held-out data, in evaluation mode."""

    score: Score = correct
    """(outputs, targets) -> one number per example, higher is better."""
    head: int | None = None
    """The head that is asked; None: each example's own."""

    @torch.no_grad()
    def __call__(self, network: nn.Module, data: DataLike) -> float:
        """The mean over all examples."""
        total, count = 0.0, 0
        device = next(network.parameters()).device
        network.eval()
        for batch in iterate(data, 1024):
            task = batch.task if self.head is None else self.head
            outputs = run(network, batch.inputs.to(device), task)
            total += float(self.score(outputs, batch.targets.to(device)).sum())
            count += len(batch.targets)
        return total / count

    def each(self, network: nn.Module, sets: Sequence[DataLike]) -> tuple[float, ...]:
        """One for each data set."""
        return tuple(self(network, data) for data in sets)


def as_sets(data: DataLike | Sequence[DataLike] | None) -> list[DataLike]:
    """One data set or several, as a list."""
    if data is None:
        return []
    return list(data) if isinstance(data, Sequence) else [data]


def parameters(network: nn.Module) -> int:
    """How many numbers a network has learned.

    >>> parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in network.parameters())


@torch.no_grad()
def speed_up(slow: nn.Module, fast: nn.Module, inputs: tuple[Any, ...], repeats: int = 15) -> float:
    """How many times as fast `fast` is: the quotient of the shortest of several interleaved runs,
    which a busy machine disturbs least."""
    best = [float("inf"), float("inf")]
    for repeat in range(repeats + 2):  # the first two only warm up
        for place, network in enumerate((slow, fast)):
            start = time.perf_counter()
            network(*inputs)
            taken = time.perf_counter() - start
            best[place] = min(best[place], taken) if repeat > 1 else best[place]
    return best[0] / best[1]
