"""The network of each benchmark (paper, section 4.1 and supplement, tables 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn

from uclearn.errors import SettingError
from uclearn.networks import cifar_network, mlp, omniglot_network
from uclearn.runs.parts import NetworkSettings
from uclearn.tasks import TaskSequence
from uclearn.tasks.benchmarks import benchmark

Fixed = Callable[[int], nn.Module]

_FIXED: dict[str, Fixed] = {
    "cifar100": lambda seed: cifar_network(seed=seed),
    "cifar10": lambda seed: cifar_network(seed=seed),
    "omniglot": lambda seed: omniglot_network(seed=seed),
}
"""By data set: networks that leave no choice. All others are fully connected."""


def fixed_network(name: str) -> Fixed | None:
    """What makes the convolutional network of the benchmark `name`; None: it is an MLP.

    >>> fixed_network("permuted-mnist") is None
    True
    """
    found = [_FIXED[data] for data in benchmark(name).data if data in _FIXED]
    return found[0] if found else None


def check_network(name: str, settings: NetworkSettings) -> None:
    """Refuse what the benchmark's network cannot be."""
    for key in ("dropout", "input_dropout"):
        share = getattr(settings, key)
        if not 0 <= share < 1:
            raise SettingError(
                f"`network.{key}` must be 0 or greater and less than 1, got {share}. It is the "
                "share of values that are set to 0 while training."
            )
    if fixed_network(name) is not None:
        if settings != NetworkSettings():
            raise SettingError(
                f"`network` must be left as it is for {name}, got {settings}. Its network is the "
                "convolutional one of the paper's supplement."
            )
    elif not settings.hidden or min(settings.hidden) < 1:
        raise SettingError(
            f"`network.hidden` must hold the width of at least one hidden layer, each at least 1, "
            f"got {list(settings.hidden)}."
        )


def make_network(name: str, settings: NetworkSettings, tasks: TaskSequence, seed: int) -> nn.Module:
    """The plain network that the methods of a benchmark convert."""
    fixed = fixed_network(name)
    if fixed is not None:
        return fixed(seed)
    return mlp(
        math.prod(tasks.input_shape),
        settings.hidden,
        None if tasks.heads else tasks.classes[0],
        dropout=settings.dropout,
        input_dropout=settings.input_dropout,
        seed=seed,
    )
