"""Networks for HAT, each with something between its layers that a closed node must not get past."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """Pictures (batch, 1, 8, 8): convolutions, pooling, a residual sum, groups, a flatten."""

    def __init__(self, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.inner = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.last = nn.Linear(4 * 4 * 4, 6)
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(self.activation(self.first(x)), 2)
        h = self.activation(h + self.inner(h))
        out: Tensor = self.activation(self.last(h.flatten(1)))
        return out


class SkipsFirst(nn.Module):
    """The input reaches the second layer around the first, beside nodes that may be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 6)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(x + torch.relu(self.first(x))).relu()
        return out


class Reads(nn.Module):
    """Words (batch, 5): an embedding, a convolution over time, the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 6)
        self.convolution = nn.Conv1d(6, 8, 3)
        self.last = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.convolution(self.words(x).transpose(1, 2))).mean(2)
        out: Tensor = self.last(h).relu()
        return out


class Widens(nn.Module):
    """A transposed convolution and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 2, stride=2)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2)
        self.join = nn.Conv2d(5, 3, 1)
        self.last = nn.Linear(3, 6)

    def forward(self, x: Tensor) -> Tensor:
        up = torch.relu(self.up(torch.relu(self.down(x))))
        h = torch.relu(self.join(torch.cat([x, up], 1))).mean((2, 3))
        out: Tensor = self.last(h).relu()
        return out


def normalised() -> nn.Sequential:
    """A layer norm: what it takes away as the mean comes out where nodes are closed."""
    return nn.Sequential(
        nn.Linear(64, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 6), nn.RMSNorm(6), nn.ReLU()
    )


def grouped() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 6),
        nn.ReLU(),
    )


def squashed() -> nn.Sequential:
    """Sigmoids: a closed node puts out 0, and the activation makes 1/2 of it."""
    return nn.Sequential(
        nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 6), nn.ReLU()
    )


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh())


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "plain": plain,
    "residual": Residual,
    "skip from the input": SkipsFirst,
    "words": Reads,
    "transposed": Widens,
    "layer norm": normalised,
    "group norm": grouped,
    "sigmoid": squashed,
}
"""All end in (batch, 6)."""


def inputs_for(name: str, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if name == "words":
        return torch.randint(12, (count, 5), generator=generator)
    pictures = name in ("residual", "transposed", "group norm")
    shape = (count, 1, 8, 8) if pictures else (count, 64)
    return torch.randn(shape, generator=generator)
