"""UCL written the plain way, as a script of its time has it: what our trainer is measured against.

A class for the layer, a loop over the layers for the penalty, autograd through all of it, fresh
normal numbers for every weight in every step, torch's unfused Adam, batches picked by indexing from
floats that lie ready, and every epoch judged as the authors' program does it: on the training data,
on the validation data and on those of each earlier task, all of one size on Permuted MNIST. It is
sound: on the same draws its loss and gradients are ours (tests/test_whole_run.py).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Draw = Callable[[torch.Size], Tensor]


class GaussianLinear(nn.Module):
    """A mean per weight, a standard deviation per node."""

    def __init__(self, inputs: int, outputs: int, sigma_init: float, draw: Draw) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.kaiming_uniform_(self.mu, nonlinearity="relu")
        self.bias = nn.Parameter(torch.zeros(outputs))
        rho = torch.full((outputs, 1), sigma_init).expm1().log()
        self.rho = nn.Parameter(rho)
        self.sigma_init, self.draw = sigma_init, draw

    @property
    def sigma(self) -> Tensor:
        """(outputs, 1)."""
        return torch.log1p(torch.exp(self.rho))

    def forward(self, x: Tensor, sample: bool) -> Tensor:
        """With weights that are drawn, or with their means."""
        weight = self.mu + self.sigma * self.draw(self.mu.shape) if sample else self.mu
        return F.linear(x, weight, self.bias)


class Network(nn.Module):
    """Fully connected, with ReLUs."""

    def __init__(self, widths: tuple[int, ...], sigma_init: float, draw: Draw = torch.randn):
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList([GaussianLinear(a, b, sigma_init, draw) for a, b in pairs])

    def forward(self, x: Tensor, sample: bool = False) -> Tensor:
        """(batch, classes)."""
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, sample))
        outputs: Tensor = self.layers[-1](x, sample)
        return outputs


def penalty(network: Network, saved: Network, beta: float) -> Tensor:
    """Eq. (4) + eq. (5) + beta eq. (6) of the paper, from the second task on, layer by layer."""
    total = torch.zeros(())
    below = torch.zeros(1, 1)
    for layer, old in zip(network.layers, saved.layers, strict=True):
        assert isinstance(layer, GaussianLinear)
        assert isinstance(old, GaussianLinear)
        sigma, old_sigma = layer.sigma, old.sigma.detach()
        strength = old.sigma_init / old_sigma  # (outputs, 1)
        grip = torch.max(strength.expand_as(layer.mu), below.expand_as(layer.mu))
        moved, moved_bias = layer.mu - old.mu.detach(), layer.bias - old.bias.detach()
        own = strength.squeeze(1)
        total = total + (grip * moved).pow(2).sum() / 2 + (own * moved_bias).pow(2).sum() / 2
        frozen = (strength * old.mu.detach()).pow(2) * moved.abs()
        frozen_bias = (own * old.bias.detach()).pow(2) * moved_bias.abs()
        total = total + frozen.sum() + frozen_bias.sum()
        ratio = (sigma / old_sigma).pow(2)
        spread = ratio - torch.log(ratio) + sigma.pow(2) - torch.log(sigma.pow(2))
        total = total + beta / 2 * spread.sum()
        below = strength.t()  # (1, outputs): what feeds the next layer
    return total


def loss_of(network: Network, saved: Network, x: Tensor, y: Tensor, beta: float) -> Tensor:
    """What a step goes down."""
    return F.cross_entropy(network(x, sample=True), y) + penalty(network, saved, beta) / len(x)


class Trainer:
    """Learns a task that has earlier ones, an epoch at a time."""

    def __init__(
        self, network: Network, x: Tensor, y: Tensor, earlier: int, beta: float = 0.03
    ) -> None:
        self.network, self.saved, self.beta = network, copy.deepcopy(network), beta
        self.x, self.y, self.earlier = x, y, earlier
        means = [p for name, p in network.named_parameters() if not name.endswith("rho")]
        spreads = [p for name, p in network.named_parameters() if name.endswith("rho")]
        groups = [{"params": means, "lr": 1e-3}, {"params": spreads, "lr": 1e-3}]
        self.optimizer = torch.optim.Adam(groups, foreach=False)
        self.best_loss, self.best = float("inf"), network.state_dict()

    def epoch(self) -> None:
        """Train, judge, keep the best."""
        for rows in torch.randperm(len(self.x)).split(256):
            loss = loss_of(self.network, self.saved, self.x[rows], self.y[rows], self.beta)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        judged = self.judge()
        for _ in range(1 + self.earlier):
            self.judge()
        if judged < self.best_loss:
            self.best_loss, self.best = judged, copy.deepcopy(self.network.state_dict())

    @torch.no_grad()
    def judge(self) -> float:
        """The mean loss of the mean weights on data as many as there are to train on."""
        total = 0.0
        for rows in torch.arange(len(self.x)).split(256):
            outputs = self.network(self.x[rows])
            total += F.cross_entropy(outputs, self.y[rows]).item() * len(rows)
        return total / len(self.x)
