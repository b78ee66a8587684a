"""How much better than expected: generalised advantage estimation (Schulman et al., 2016).

    surprise_t  = r_t + gamma V(s_{t+1}) (1 - terminated_t) - V(s_t)
    advantage_t = surprise_t + gamma lambda (1 - ended_t) advantage_{t+1}

An episode that a time limit cut short is not over for the critic: what would have followed is worth
V of the observation at which it was cut, and only the sum over later surprises ends there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

TimeLimits = Literal["bootstrap", "terminal"]


class Estimates(NamedTuple):
    """What a rollout teaches."""

    advantages: Tensor  # (steps, environments)
    returns: Tensor  # (steps, environments): what the critic should have said


def generalised_advantages(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float = 0.99,
    smoothing: float = 0.95,
    time_limits: TimeLimits = "bootstrap",
) -> Estimates:
    """Advantages and returns; every argument is (steps, environments).

    Args:
        rewards: for each step.
        values: V of the observation that was acted on.
        following: V of the observation that the step led to: where an episode ended, its last
            observation, not the first of the next.
        terminated: the episode ended by itself; nothing follows.
        truncated: a time limit ended it.
        gamma: discount.
        smoothing: lambda; 0 trusts the critic, 1 the rewards.
        time_limits: `"bootstrap"` as above, or `"terminal"`: nothing follows a time limit.

    >>> one, zero = torch.ones(2, 1), torch.zeros(2, 1)
    >>> generalised_advantages(one, zero, zero, zero, zero, gamma=0.5, smoothing=1.0).advantages
    tensor([[1.5000],
            [1.0000]])
    """
    ended = terminated.bool() | truncated.bool()
    closed = ended if time_limits == "terminal" else terminated.bool()
    surprises = rewards + gamma * following * (~closed) - values
    carried = (~ended).to(rewards.dtype).mul_(gamma * smoothing)
    advantages = surprises.clone()
    for step in range(len(rewards) - 2, -1, -1):
        advantages[step].addcmul_(carried[step], advantages[step + 1])
    return Estimates(advantages, advantages + values)


def standardised(advantages: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Mean 0, standard deviation 1, over all of a rollout."""
    centred = advantages - advantages.mean()
    return centred / (torch.sqrt(centred.square().mean()) + epsilon)
