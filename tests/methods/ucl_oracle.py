"""UCL's penalty by brute force: over the whole network, one weight at a time.

Which node feeds which input is written down by hand for each network here, and what the previous
task left is a snapshot of the parameters that the test takes itself. Only `joins` (the two ends of
a weight, by the definition of its layer) is shared with other oracles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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


@dataclass(frozen=True)
class Past:
    """What has happened so far: all that terms 1 + 2 + 3 depend on beside the weights of now."""

    initial: State
    """The parameters when the method was built."""
    previous: State
    """The parameters when the previous task ended (or when the method was built)."""
    tasks_done: int
    terms: Terms

    def strength(self, node: Node, parameter: str = "rho") -> float:
        """sigma_init / sigma'. All nodes of a layer start alike, biases like their layer."""
        name, number = node
        start = softplus(float(self.initial[f"{name}.rho"][0]))
        return start / softplus(float(self.previous[f"{name}.{parameter}"][number]))

    def strongest(self, nodes: Sequence[Node]) -> float:
        """The strength of an input that some nodes feed; 0 for an input of the network."""
        return max((self.strength(node) for node in nodes), default=0.0)

    def hold(
        self, now: State, name: str, place: tuple[int, ...], own: float, holding: float
    ) -> Tensor:
        """Eq. (4) and eq. (5) for one weight."""
        left = self.previous[name][place]
        moved = now[name][place] - left
        drift_weight = self.terms.alpha if self.tasks_done == 0 else 1.0
        freeze_weight = float(self.terms.freeze and self.tasks_done > 0)
        pull = drift_weight * 0.5 * (holding * moved) ** 2
        return pull + freeze_weight * (own * left) ** 2 * moved.abs()

    def spread(self, now: State, name: str) -> Iterator[Tensor]:
        """Term (b) and eq. (6), node by node."""
        for rho, rho_left in zip(now[name], self.previous[name], strict=True):
            sigma, left = torch.log1p(rho.exp()), softplus(float(rho_left))
            value = (sigma / left) ** 2 - torch.log((sigma / left) ** 2)
            if self.terms.inflate:
                value = value + sigma**2 - torch.log(sigma**2)
            yield self.terms.beta / 2 * value

    def of_layer(self, now: State, name: str, layer: nn.Module, feeds: Feeds) -> Iterator[Tensor]:
        """Everything about one Gaussian layer."""
        for join in joins(layer):
            own = self.strength((name, join.node))
            from_below = self.strongest(feeds[join.source]) if self.terms.upper_freeze else 0.0
            yield self.hold(now, f"{name}.weight", join.place, own, max(own, from_below))
        yield from self.spread(now, f"{name}.rho")
        noisy = f"{name}.rho_bias" in now
        if noisy:
            yield from self.spread(now, f"{name}.rho_bias")
        for i in range(len(now.get(f"{name}.bias", ()))):
            own = self.strength((name, i), "rho_bias" if noisy else "rho")
            yield self.hold(now, f"{name}.bias", (i,), own, own)

    def of_norm(self, now: State, name: str, feeds: Feeds) -> Iterator[Tensor]:
        """Scale and shift of each feature, with the strength of the feature."""
        for parameter in ("weight", "bias"):
            for i, nodes in enumerate(feeds):
                own = self.strongest(nodes)
                yield self.hold(now, f"{name}.{parameter}", (i,), own, own)

    def penalty(self, net: Net, model: nn.Module) -> tuple[float, State]:
        """Value and gradient of terms 1 + 2 + 3 for the model as it is now, divided by nothing."""
        now = {name: value.requires_grad_() for name, value in snapshot(model).items()}
        total = torch.zeros((), dtype=torch.float64)
        for name, feeds in net.layers.items():
            total = total + sum(self.of_layer(now, name, model.get_submodule(name), feeds))
        for name, feeds in net.norms.items():
            total = total + sum(self.of_norm(now, name, feeds))
        gradients = torch.autograd.grad(total, list(now.values()), materialize_grads=True)
        return float(total.detach()), dict(zip(now, gradients, strict=True))


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
