"""What happened: a few steps of many environments, as examples to learn from.

Actions are drawn from the policy, whose weights are drawn too where a method's layers are noisy:
both explore. What the ratio of probabilities in PPO then means is a setting (`draws`):

    forward   every forward pass draws weights anew, while acting and while learning (the paper).
              The ratio compares the policy of one draw with that of another, so it leaves 1 by the
              noise alone, before anything was learned; clipping then also bounds how much a single
              draw may count.
    rollout   one draw is held for a rollout and all updates from it: w = mean + sigma eps with the
              same eps throughout. The ratio compares that one policy before and after a change of
              mean and sigma, and is exactly 1 before the first. It wants layers that draw weights
              (`sampling="weight"`); noise drawn for each example belongs to a place in a batch.

In a network without noisy layers both are the same.

How much better an action was than expected is estimated by generalised advantage estimation
(Schulman et al., 2016):

    surprise_t  = r_t + gamma V(s_{t+1}) (1 - terminated_t) - V(s_t)
    advantage_t = surprise_t + gamma lambda (1 - ended_t) advantage_{t+1}

An episode that a time limit cut short is not over for the critic: what would have followed is worth
V of the observation at which it was cut, and only the sum over later surprises ends there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uclearn.gaussian import hold_draws
from uclearn.rl.environments import Environments
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan, TimeLimits
from uclearn.rl.policy import log_probability, view


class RolloutBatch(NamedTuple):
    """Steps to learn from, in any order."""

    observations: Tensor  # (batch, width): normalised, padded
    actions: Tensor  # (batch, actions): as drawn, before the simulator clips them
    log_probabilities: Tensor  # (batch,): of the actions, when they were drawn
    values: Tensor  # (batch,): what the critic expected
    advantages: Tensor  # (batch,): standardised over the rollout
    returns: Tensor  # (batch,): what the critic should have said


class Steps(NamedTuple):
    """What one environment after the other did, (steps, environments, ...)."""

    observations: Tensor
    outputs: Tensor  # what the network said, see `uclearn.rl.policy.view`
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    following: Tensor  # V of the observation that each step led to


def held(model: nn.Module, plan: PPOPlan) -> AbstractContextManager[None]:
    """Around a rollout and its updates: one draw of the weights, if the plan says so."""
    return hold_draws(model) if plan.draws == "rollout" else nullcontext()


class Collector:
    """Acts in one task's environments and remembers where they stand.

    Args:
        environments: of the task.
        normaliser: the task's own; it learns from what is seen unless it is frozen.
        task: number of the task, and of its head.
        width: numbers in a padded observation.
        plan: how long, how discounted.
    """

    def __init__(
        self,
        environments: Environments,
        normaliser: Normaliser,
        task: int,
        width: int,
        plan: PPOPlan,
    ) -> None:
        self.environments, self.normaliser = environments, normaliser
        self.task, self.width, self.plan = task, width, plan
        self.now: NDArray[np.float32] = np.zeros((0, environments.observation_size), np.float32)

    def renew(self, seed: int) -> None:
        """Begin all episodes anew."""
        self.now = self.environments.reset(seed)
        self.normaliser.observe(self.now)

    def collect(self, model: nn.Module, chance: torch.Generator) -> RolloutBatch:
        """A rollout in the mode that the model is in; `chance` draws the actions."""
        return examples(self.act(model, chance), self.plan)

    @torch.no_grad()
    def act(self, model: nn.Module, chance: torch.Generator) -> Steps:
        """Step all environments `rollout_steps` times."""
        length, count = self.plan.rollout_steps, self.environments.count
        size = self.environments.action_size
        noise = torch.randn(length, count, size, generator=chance)
        seen = torch.zeros(length, count, self.width)
        outputs = torch.empty(length, count, 2 * size + 1)
        actions, rewards = torch.empty(length, count, size), torch.empty(length, count)
        terminated, truncated = torch.zeros(2, length, count, dtype=torch.bool)
        last: list[NDArray[np.float32]] = []  # where time limits cut episodes
        # the arrays share the tensors' memory
        into, paid, acted = seen.numpy(), rewards.numpy(), actions.numpy()
        fell, cut = terminated.numpy(), truncated.numpy()
        for t in range(length):
            into[t, :, : self.now.shape[1]] = self.normaliser.observations(self.now)
            outputs[t] = model(seen[t], task=self.task)
            mean, log_std, _ = view(outputs[t])
            torch.addcmul(mean, log_std.exp(), noise[t], out=actions[t])
            step = self.environments.step(acted[t])
            self.normaliser.observe(step.observations, step.rewards, step.ended)
            paid[t] = self.normaliser.rewards(step.rewards)
            fell[t], cut[t], self.now = step.terminated, step.truncated, step.observations
            last.append(step.final_observations[step.truncated])
        following = self._following(model, outputs, truncated, last)
        return Steps(seen, outputs, actions, rewards, terminated, truncated, following)

    def _following(
        self,
        model: nn.Module,
        outputs: Tensor,
        truncated: Tensor,
        last: list[NDArray[np.float32]],
    ) -> Tensor:
        """V of what each step led to: mostly known from the next step; the rest in one pass."""
        asked = self.normaliser.observations(np.concatenate([self.now, *last]))
        padded = torch.zeros(len(asked), self.width)
        padded[:, : asked.shape[1]] = torch.from_numpy(asked)
        values = view(model(padded, task=self.task)).value
        following = torch.cat((view(outputs).value[1:], values[None, : len(self.now)]))
        following[truncated] = values[len(self.now) :]
        return following


def examples(steps: Steps, plan: PPOPlan) -> RolloutBatch:
    """Steps as examples: with advantages, without an order."""
    mean, log_std, values = view(steps.outputs)
    estimates = generalised_advantages(
        steps.rewards,
        values,
        steps.following,
        steps.terminated,
        steps.truncated,
        gamma=plan.gamma,
        smoothing=plan.smoothing,
        time_limits=plan.time_limits,
    )
    return RolloutBatch(
        steps.observations.flatten(0, 1),
        steps.actions.flatten(0, 1),
        log_probability(mean, log_std, steps.actions).flatten(),
        values.flatten(),
        standardised(estimates.advantages).flatten(),
        estimates.returns.flatten(),
    )


def action_losses(
    model: nn.Module, collected: RolloutBatch, task: int, size: int = 512
) -> Iterator[Tensor]:
    """-log pi of each action taken, (size,) at a time, with graph: what methods that measure
    importance by losses get.

    The actions must have been drawn by the policy as it is: then the mean square of this loss's
    gradient is the Fisher information of the policy itself, not an estimate from labels. The critic
    has no part in it.
    """
    for observations, actions in zip(
        collected.observations.split(size), collected.actions.split(size), strict=True
    ):
        mean, log_std, _ = view(model(observations, task=task))
        yield -log_probability(mean, log_std, actions)


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
