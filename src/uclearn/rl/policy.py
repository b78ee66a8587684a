"""Who acts, and who judges: an actor and a critic whose heads change from task to task.

Tasks differ in what they observe and in how they move. Observations are padded with zeros to the
widest task, so that all of them enter the same trunk; every task has a Gaussian action head of its
own. To the methods of continual learning this is an ordinary network with heads: they hold the
trunks and leave the heads alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from uclearn.choices import check_choice
from uclearn.errors import SettingError, TaskError
from uclearn.networks import MultiHead, he_start

Activation = Literal["tanh", "relu"]
Trunk = Literal["separate", "shared"]
Spread = Literal["free", "linear"]
Values = Literal["per-task", "shared"]
Start = Literal["he", "orthogonal"]

_ACTIVATIONS: dict[Activation, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
_SMALL = 0.01
"""Gain of the means' layer: the first actions are all near 0, whatever is observed."""
_HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2


class View(NamedTuple):
    """What the network says about a batch of observations, taken apart."""

    mean: Tensor  # (batch, actions): of the Gaussian that actions are drawn from; its mode
    log_std: Tensor  # (batch, actions)
    value: Tensor  # (batch,): the return that the critic expects


def view(outputs: Tensor) -> View:
    """Take the network's outputs apart, (batch, 2 actions + 1).

    >>> view(torch.tensor([[1.0, 2.0, -1.0, -2.0, 7.0]])).value
    tensor([7.])
    """
    actions = outputs.shape[-1] // 2
    mean, log_std, value = outputs.split((actions, actions, 1), dim=-1)
    return View(mean, log_std, value.squeeze(-1))


def log_probability(mean: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """log N(actions; mean, exp(log_std)^2), summed over the last dimension.

    >>> log_probability(torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2))  # -log(2 pi)
    tensor([-1.8379])
    """
    distance = (actions - mean) * torch.exp(-log_std)
    return -(distance.square() * 0.5 + log_std + _HALF_LOG_TWO_PI).sum(-1)


def entropy(log_std: Tensor) -> Tensor:
    """Of the Gaussian with these standard deviations, summed over the last dimension."""
    return (log_std + (0.5 + _HALF_LOG_TWO_PI)).sum(-1)


class ActionHead(nn.Linear):
    """One task's way of moving: a layer for the means, the spread, and the value.

    `weight` and `bias` are the means'. With `spread="free"` the logarithm of the standard deviation
    is a parameter, one per action, whatever is observed; with `"linear"` a layer beside the means'.
    """

    def __init__(self, features: int, actions: int, spread: Spread, value: nn.Linear) -> None:
        super().__init__(features, actions)
        self.value = value
        self.log_std: nn.Parameter | nn.Linear
        if spread == "free":
            self.log_std = nn.Parameter(torch.zeros(actions))
        else:
            self.log_std = nn.Linear(features, actions)

    def forward(self, input: tuple[Tensor, Tensor]) -> Tensor:  # type: ignore[override]
        """(batch, 2 actions + 1): means, logarithms of standard deviations, value."""
        acting, judging = input
        mean = super().forward(acting)
        if isinstance(self.log_std, nn.Linear):
            log_std = self.log_std(acting)
        else:
            log_std = self.log_std.expand_as(mean)
        return torch.cat((mean, log_std, self.value(judging)), dim=-1)


class Trunks(nn.Module):
    """What all tasks share: layers for the actor and layers for the critic, or one for both."""

    def __init__(self, width: int, actor: nn.Sequential, critic: nn.Sequential | None) -> None:
        super().__init__()
        self.width, self.actor, self.critic = width, actor, critic

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, width) to the actor's and the critic's features."""
        if observations.shape[-1] != self.width:
            raise TaskError(
                f"`observations` must be padded to the widest task, {self.width} numbers each, got "
                f"{observations.shape[-1]}. `policy.padded(observations)` does it."
            )
        acting: Tensor = self.actor(observations)
        return acting, acting if self.critic is None else self.critic(observations)


class ActorCritic(MultiHead):
    """An actor and a critic for tasks that differ in what they observe and how they move.

    Called as `model(observations, task=2)` it gives (batch, 2 actions + 1), which `view` takes
    apart. `task.classes` of a task is the size of its actions.

    Args:
        width: numbers in an observation of the widest task.
        hidden: width of each hidden layer (the paper: two of 16).
        activation: `"tanh"` or `"relu"`.
        trunk: `"separate"` layers for actor and critic, or `"shared"` ones.
        spread: the standard deviation of actions is a `"free"` parameter of the head, the same
            whatever is observed, or a `"linear"` function of the actor's features. The paper says
            only that it is learned.
        values: one value head `"per-task"`, or one `"shared"` by all tasks.
        log_std: where the logarithm of the standard deviation starts.
        start: the trunks' weights are drawn as `"he"` did (the paper) or `"orthogonal"` with gain
            sqrt(2), as is customary for PPO. The heads' means start a hundred times smaller.
        seed: for all weights; head i is drawn from (seed, i), whenever it is added.

    >>> policy = ActorCritic(width=5)
    >>> policy.add_head(2)
    0
    >>> view(policy(policy.padded(torch.ones(7, 3)), task=0)).mean.shape
    torch.Size([7, 2])
    """

    trunk: Trunks

    def __init__(
        self,
        width: int,
        hidden: Sequence[int] = (16, 16),
        *,
        activation: Activation = "tanh",
        trunk: Trunk = "separate",
        spread: Spread = "free",
        values: Values = "per-task",
        log_std: float = 0.0,
        start: Start = "he",
        seed: int = 0,
    ) -> None:
        if not hidden or min(hidden) < 1:
            raise SettingError(
                f"`hidden` must hold the width of at least one hidden layer, got {tuple(hidden)}. "
                "The paper uses (16, 16)."
            )
        for name, value, kind in (
            ("activation", activation, Activation),
            ("trunk", trunk, Trunk),
            ("spread", spread, Spread),
            ("values", values, Values),
            ("start", start, Start),
        ):
            check_choice(name, value, get_args(kind))
        generator = torch.Generator().manual_seed(seed)
        sizes = (width, *hidden)
        actor = _layers(sizes, activation, start, generator)
        critic = _layers(sizes, activation, start, generator) if trunk == "separate" else None
        super().__init__(Trunks(width, actor, critic), hidden[-1], seed)
        self.width, self.spread, self.values, self.initial_log_std = width, spread, values, log_std

    def embed(self, input: Any) -> Any:
        """The actor's and the critic's features: heads take both."""
        return self.trunk(input)

    def add_head(self, outputs: int) -> int:
        """Give the next task a head for `outputs` actions; its number is returned."""
        index = len(self.heads)
        generator = torch.Generator().manual_seed(self.seed * 100_003 + index)
        shares = self.values == "shared" and index > 0
        value = self.head(0).value if shares else nn.Linear(self.features, 1)
        head = ActionHead(self.features, outputs, self.spread, value)
        _draw(head, _SMALL, generator)
        log_std = head.log_std
        if isinstance(log_std, nn.Linear):
            _draw(log_std, _SMALL, generator)
            log_std = log_std.bias
        nn.init.constant_(log_std, self.initial_log_std)
        if not shares:
            _draw(value, 1.0, generator)
        self.heads.append(head.to(next(self.trunk.parameters())))
        return index

    def head(self, task: int) -> ActionHead:
        """The head of a task that has begun."""
        head = self._head(task)
        assert isinstance(head, ActionHead)
        return head

    def padded(self, observations: Tensor) -> Tensor:
        """(batch, numbers) with zeros behind, (batch, width)."""
        missing = self.width - observations.shape[-1]
        if missing < 0:
            raise TaskError(
                f"`observations` must hold at most {self.width} numbers (the `width` that the "
                f"policy was built with), got {observations.shape[-1]}. Build it for the widest "
                "task of the sequence."
            )
        return nn.functional.pad(observations, (0, missing))


def _layers(
    sizes: Sequence[int], activation: Activation, start: Start, generator: torch.Generator
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), _ACTIVATIONS[activation]()]
    network = nn.Sequential(*layers)
    if start == "he":
        he_start(network, generator)
        return network
    for layer in network:
        if isinstance(layer, nn.Linear):
            _draw(layer, math.sqrt(2), generator)
    return network


def _draw(layer: nn.Linear, gain: float, generator: torch.Generator) -> None:
    """Orthogonal weights of that gain, zero biases."""
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
