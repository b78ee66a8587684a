"""A machine's months: small data that a small network learns in a moment, and forgets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uclearn.live.learner import Learner
from uclearn.networks import mlp
from uclearn.training import Plan

PLAN = Plan(epochs=12, batch_size=16, lr=0.02)
QUICK = Plan(epochs=1, batch_size=16, lr=0.02)
"""Where it does not matter how well it is learned."""


def month(number: int, count: int = 120) -> tuple[Tensor, Tensor]:
    """Two classes on the sides of a line; in odd months the other way round."""
    stream = torch.Generator().manual_seed(number)
    x = torch.randn(count, 4, generator=stream)
    x[:, 0] += torch.sign(x[:, 0])  # a gap between the classes
    return x, ((x[:, 0] > 0) ^ bool(number % 2)).long()


def learner(
    method: str = "finetuning", *, outputs: int | None = None, plan: Plan = PLAN, **settings: Any
) -> Learner:
    """A small one; with a head for each task unless `outputs` are given."""
    return Learner(mlp(4, (12,), outputs), method, plan=plan, **settings)


def accuracy(of: Learner, x: Tensor, y: Tensor, task: str | None = None) -> float:
    """The share of right labels."""
    labels = of.predict(x, task=task).labels
    return float((labels == y).float().mean())


def state(of: Learner) -> dict[str, Tensor]:
    """A copy of all that its method remembers."""
    return {name: value.clone() for name, value in of.method.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Whether two states are equal to the bit."""
    return left.keys() == right.keys() and all(
        torch.equal(value, right[name]) for name, value in left.items()
    )
