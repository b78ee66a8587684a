"""How long, how fast, in what portions: everything about learning to act that is not the method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from uclearn.choices import check_choice, check_count
from uclearn.errors import SettingError

TimeLimits = Literal["bootstrap", "terminal"]
DrawTimes = Literal["forward", "rollout"]
Portion = Literal["size", "count"]


@dataclass(frozen=True)
class PPOPlan:
    """How each task is learned, by proximal policy optimisation (Schulman et al., 2017).

    The defaults are the paper's; where it is silent (from `clip` to `clip_norm`), those of its
    authors' program.

    Args:
        steps_per_task: steps of all environments together; whole iterations of it are run.
        environments: stepped side by side.
        workers: processes that share them.
        rollout_steps: of each environment in an iteration.
        epochs: passes over each rollout.
        minibatch: a number of examples or of mini-batches; the paper gives 64.
        minibatch_is: what that number is: the `"size"` of a mini-batch (as the paper's table says)
            or the `"count"` of mini-batches in a rollout (as in the authors' program).
        gamma: discount.
        smoothing: lambda of generalised advantage estimation.
        time_limits: the value of what would have followed a time limit is `"bootstrap"`ped from the
            critic, or a time limit is as `"terminal"` as a fall.
        entropy_weight: of the entropy bonus.
        value_weight: of the value loss, which is half the mean squared error.
        clip: how far the ratio of probabilities may leave 1 before its gradient is cut.
        clip_value: cut the value loss in the same way.
        lr: of Adam, falling linearly to 0 within each task; new for each task.
        adam_epsilon: its epsilon.
        clip_norm: largest norm of the gradient, None for any.
        draws: noisy weights are drawn once per `"forward"` pass, or held for a `"rollout"` and the
            updates from it (see `uclearn.rl.rollout`).
        penalty_divisor: what a step calls its batch size, by which UCL divides its penalty: the
            `"size"` of the mini-batch, or the `"count"` of mini-batches as in the authors' program.
        consolidation_rollouts: fresh rollouts at the end of a task for methods that measure
            importance.
        evaluation_episodes: of every task seen so far, at each evaluation.
        renew_every: iterations between evaluations. There a checkpoint is written and all
            environments begin anew (see `uclearn.rl.session`).
        seed: environments, actions, order of examples; network and method have seeds of their own.
    """

    steps_per_task: int = 5_000_000
    environments: int = 128
    workers: int = 2
    rollout_steps: int = 64
    epochs: int = 10
    minibatch: int = 64
    minibatch_is: Portion = "size"
    gamma: float = 0.99
    smoothing: float = 0.95
    time_limits: TimeLimits = "bootstrap"
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    clip: float = 0.2
    clip_value: bool = True
    lr: float = 3e-4
    adam_epsilon: float = 1e-5
    clip_norm: float | None = 0.5
    draws: DrawTimes = "forward"
    penalty_divisor: Portion = "size"
    consolidation_rollouts: int = 1
    evaluation_episodes: int = 10
    renew_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name, meaning in _COUNTS.items():
            check_count(name, getattr(self, name), meaning)
        for name in ("lr", "adam_epsilon", "clip"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise SettingError(
                    f"`{name}` must be positive and finite, got {getattr(self, name)}."
                )
        for name in ("gamma", "smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(
                    f"`{name}` must lie between 0 and 1, got {getattr(self, name)}. The paper uses "
                    "0.99 for gamma and 0.95 for smoothing."
                )
        for name, kind in _CHOICES.items():
            check_choice(name, getattr(self, name), get_args(kind))
        if self.steps_per_task < self.rollout_size:
            raise SettingError(
                f"`steps_per_task` must hold at least one rollout, {self.environments} environments"
                f" x {self.rollout_steps} steps = {self.rollout_size}, got {self.steps_per_task}. "
                "Give it more, or take fewer `environments` or `rollout_steps`."
            )
        if self.minibatch > self.rollout_size:
            raise SettingError(
                f"`minibatch` must be at most {self.rollout_size}, the steps of a rollout, got "
                f"{self.minibatch}."
            )

    @property
    def rollout_size(self) -> int:
        """Steps of one iteration.

        >>> PPOPlan().rollout_size, PPOPlan().iterations
        (8192, 610)
        """
        return self.environments * self.rollout_steps

    @property
    def iterations(self) -> int:
        """Rollouts of a task."""
        return self.steps_per_task // self.rollout_size

    @property
    def minibatch_size(self) -> int:
        """Examples of one move of the optimiser.

        >>> PPOPlan().minibatch_size, PPOPlan(minibatch_is="count").minibatch_size
        (64, 128)
        """
        if self.minibatch_is == "size":
            return self.minibatch
        return -(-self.rollout_size // self.minibatch)

    @property
    def minibatches(self) -> int:
        """Moves of the optimiser in an epoch; the last mini-batch may be smaller."""
        return -(-self.rollout_size // self.minibatch_size)


_COUNTS = {
    "environments": "environments stepped side by side",
    "workers": "processes",
    "rollout_steps": "steps of each environment in an iteration",
    "epochs": "passes over a rollout",
    "minibatch": "examples of a mini-batch, or mini-batches of a rollout",
    "consolidation_rollouts": "rollouts that importance is measured by",
    "evaluation_episodes": "episodes of each task",
    "renew_every": "iterations between evaluations",
}
_CHOICES = {
    "minibatch_is": Portion,
    "time_limits": TimeLimits,
    "draws": DrawTimes,
    "penalty_divisor": Portion,
}
