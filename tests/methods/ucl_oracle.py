"""UCL's penalty by brute force: over the whole network, one weight at a time.

Which node feeds which input is written down by hand for each network here, and what the previous
task left is a snapshot of the parameters that the test takes itself. Only `joins` (the two ends of
a weight, by the definition of its layer) is shared with other oracles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tests.oracles import joins

Node = tuple[str, int]
"""(name of the layer, number of the node)"""
Feeds = Sequence[Sequence[Node]]
"""For each input feature the nodes that feed it; none for an input of the network."""
State = dict[str, Tensor]


@dataclass(frozen=True)
class Net:
    """A network with its wiring, told by hand."""

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    layers: dict[str, Feeds]
    norms: dict[str, Feeds]


@dataclass(frozen=True)
class Terms:
    """What UCL's settings say about the terms of the loss."""

    beta: float
    alpha: float = 0.01
    upper_freeze: bool = True
    freeze: bool = True
    inflate: bool = True


def snapshot(model: nn.Module) -> State:
    """A copy of all parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def brute_force(
    net: Net, model: nn.Module, initial: State, previous: State, tasks_done: int, terms: Terms
) -> tuple[float, State]:
    """Value and gradient of terms 1 + 2 + 3, not divided by anything.

    Args:
        net: the wiring.
        model: the network as it is now.
        initial: its parameters when the method was built.
        previous: its parameters when the previous task ended (or when the method was built).
        tasks_done: how many tasks have ended.
        terms: the settings.
    """
    now = {name: value.requires_grad_() for name, value in snapshot(model).items()}
    total = torch.zeros((), dtype=torch.float64)
    drift_weight = terms.alpha if tasks_done == 0 else 1.0
    freeze_weight = float(terms.freeze and tasks_done > 0)

    def strength(node: Node, parameter: str = "rho") -> float:
        name, number = node
        # all nodes of a layer start alike, biases like their layer
        start = softplus(float(initial[f"{name}.rho"][0]))
        return start / softplus(float(previous[f"{name}.{parameter}"][number]))

    def strongest(nodes: Sequence[Node]) -> float:
        return max((strength(node) for node in nodes), default=0.0)

    def hold(name: str, place: tuple[int, ...], own: float, holding: float) -> Tensor:
        left = previous[name][place]
        moved = now[name][place] - left
        pull = drift_weight * 0.5 * (holding * moved) ** 2
        return pull + freeze_weight * (own * left) ** 2 * moved.abs()

    def spread(name: str) -> Tensor:
        value = torch.zeros((), dtype=torch.float64)
        for rho, rho_left in zip(now[name], previous[name], strict=True):
            sigma, left = torch.log1p(rho.exp()), softplus(float(rho_left))
            value = value + (sigma / left) ** 2 - torch.log((sigma / left) ** 2)
            if terms.inflate:
                value = value + sigma**2 - torch.log(sigma**2)
        return terms.beta / 2 * value

    for name, feeds in net.layers.items():
        layer = model.get_submodule(name)
        for join in joins(layer):
            own = strength((name, join.node))
            from_below = strongest(feeds[join.source]) if terms.upper_freeze else 0.0
            total = total + hold(f"{name}.weight", join.place, own, max(own, from_below))
        total = total + spread(f"{name}.rho")
        noisy_bias = f"{name}.rho_bias" in now
        if noisy_bias:
            total = total + spread(f"{name}.rho_bias")
        for i in range(len(now.get(f"{name}.bias", ()))):
            own = strength((name, i), "rho_bias" if noisy_bias else "rho")
            total = total + hold(f"{name}.bias", (i,), own, own)
    for name, feeds in net.norms.items():
        for parameter in ("weight", "bias"):
            for i, nodes in enumerate(feeds):
                own = strongest(nodes)
                total = total + hold(f"{name}.{parameter}", (i,), own, own)

    gradients = torch.autograd.grad(total, list(now.values()), allow_unused=True)
    return float(total.detach()), {
        name: torch.zeros_like(value) if gradient is None else gradient
        for (name, value), gradient in zip(now.items(), gradients, strict=True)
    }


def softplus(rho: float) -> float:
    """sigma = log(1 + exp(rho))."""
    return math.log1p(math.exp(rho))


# -- networks, wired by hand -------------------------------------------------------------------


def inputs(count: int) -> Feeds:
    """Inputs of the network: no node feeds them."""
    return [[] for _ in range(count)]


def nodes(layer: str, count: int, each: int = 1) -> Feeds:
    """The nodes of a layer in order, each feeding `each` inputs in a row (a flatten)."""
    return [[(layer, number)] for number in range(count) for _ in range(each)]


class Residual(nn.Module):
    """Two linear layers with a bypass, then a third."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        y: Tensor = self.last(self.second(h) + h)
        return y


MLP = Net(
    build=lambda: nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 2)
    ),
    input_shape=(3,),
    layers={"0": inputs(3), "2": nodes("0", 4), "4": nodes("2", 3)},
    norms={},
)

CONV = Net(
    build=lambda: nn.Sequential(
        nn.Conv2d(2, 3, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)
    ),
    input_shape=(2, 5, 5),  # -> 3 channels of 4x4 -> 2x2
    layers={"0": inputs(2), "4": nodes("0", 3, each=4)},
    norms={},
)

NORMED = Net(
    build=lambda: nn.Sequential(
        nn.Conv2d(2, 4, 2, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 2, groups=2),
        nn.Flatten(),
        nn.Linear(16, 3),
        nn.LayerNorm(3),
        nn.Linear(3, 2),
    ),
    input_shape=(2, 4, 4),  # -> 4 channels of 3x3 -> 4 of 2x2
    layers={
        "0": inputs(2),
        "3": nodes("0", 4),
        "5": nodes("3", 4, each=4),
        "7": nodes("5", 3),
    },
    norms={"1": nodes("0", 4), "6": nodes("5", 3)},
)

RESIDUAL = Net(
    build=Residual,
    input_shape=(3,),
    layers={
        "first": inputs(3),
        "second": nodes("first", 4),
        "last": [[("first", i), ("second", i)] for i in range(4)],
    },
    norms={},
)

NETS = {"mlp": MLP, "conv": CONV, "normed": NORMED, "residual": RESIDUAL}
