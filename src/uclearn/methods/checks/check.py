"""What all checks share: how they fail, what they look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from uclearn.errors import UclearnError
from uclearn.methods.checks import trial
from uclearn.methods.checks.trial import Make
from uclearn.methods.contract import Method
from uclearn.tasks.task import Task


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
    found = trial.weights(method, heads)
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
        "the penalty": trial.pull(method, task)[0],
        "predictions": trial.predict(method, task),
        "predictions for the first task": trial.predict(method, trial.tasks(1)[0]),
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
