"""What a policy earns, and what a whole session found: the raw returns of every task, in time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.rl.environments import Environments
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import view
from uclearn.tasks import Task

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Raw observations (count, observation_size) to actions (count, action_size)."""


def play(environments: Environments, act: Act, *, episodes: int, seed: int) -> NDArray[np.float64]:
    """The raw returns of `episodes` episodes: the first of as many environments, (episodes,).

    The same seed means the same starts each time. An environment whose episode is over rests until
    the others are done.

    Args:
        environments: where to play, at least `episodes` of them, all started anew.
        act: the policy, given the observations of all environments, also of those that rest.
        episodes: how many.
        seed: environment i starts from (seed, i).
    """
    if not 1 <= episodes <= environments.count:
        raise SettingError(
            f"`episodes` must lie between 1 and the number of environments, {environments.count}, "
            f"got {episodes}: each plays one."
        )
    observations = environments.reset(seed)
    playing = np.arange(environments.count) < episodes
    returns = np.zeros(environments.count)
    while playing.any():
        step = environments.step(act(observations), playing)
        returns += step.rewards  # 0 where an environment rests
        playing &= ~step.ended
        observations = step.observations
    environments.finished()  # these were not played to be learned from
    return returns[:episodes]


def random_return(name: str, plan: PPOPlan, seed: int) -> float:
    """The mean raw return of `plan.evaluation_episodes` episodes in which every action is drawn
    uniformly from its bounds (standard normal where it has none), whatever is observed."""
    chance = np.random.default_rng(seed)
    count = plan.evaluation_episodes
    with Environments(name, count=count, workers=plan.workers) as environments:
        spaces = environments.spaces
        low, high = np.asarray(spaces.low), np.asarray(spaces.high)
        bounded = np.isfinite(low) & np.isfinite(high)
        start, width = np.where(bounded, low, 0.0), np.where(bounded, high - low, 0.0)

        def act(raw: NDArray[np.float32]) -> NDArray[np.float32]:
            shape = (count, spaces.action_size)
            within, beyond = start + width * chance.random(shape), chance.standard_normal(shape)
            return np.where(bounded, within, beyond).astype(np.float32)

        return float(play(environments, act, episodes=count, seed=seed).mean())


class Evaluator:
    """Plays every task from the same starts each time, in environments that it keeps open.

    Args:
        width: numbers in a padded observation.
        plan: how many episodes, in how many processes.
    """

    def __init__(self, width: int, plan: PPOPlan) -> None:
        self.width, self.plan = width, plan
        self._open = ExitStack()
        self._stages: dict[int, Environments] = {}

    def returns(self, method: Method, task: Task, normaliser: Normaliser, seed: int) -> list[float]:
        """The raw return of each episode, with mean weights and the most likely actions.

        The normaliser is the task's own and learns nothing here.
        """
        stage = self._stage(task)
        padded = torch.zeros(stage.count, self.width)
        with torch.no_grad(), method.inference(task.index) as network:

            def act(raw: NDArray[np.float32]) -> NDArray[np.float32]:
                padded[:, : raw.shape[1]] = torch.from_numpy(normaliser.observations(raw))
                mode: NDArray[np.float32] = view(network(padded, task=task.index)).mean.numpy()
                return mode

            played = play(stage, act, episodes=stage.count, seed=seed)
        return [float(one) for one in played]

    def close(self) -> None:
        """End all environments."""
        self._open.close()

    def _stage(self, task: Task) -> Environments:
        if task.index not in self._stages:
            count, workers = self.plan.evaluation_episodes, self.plan.workers
            opened = Environments(task.name, count=count, workers=workers)
            self._stages[task.index] = self._open.enter_context(opened)
        return self._stages[task.index]


@dataclass(frozen=True)
class Evaluation:
    """What every task seen so far earned at one moment."""

    task: int
    """The task being learned."""
    iteration: int
    """Iterations of it that are done."""
    steps: int
    """Steps of all tasks so far."""
    returns: list[list[float]]
    """The raw returns of each task's episodes, in the order of tasks."""

    def means(self) -> list[float]:
        """The mean return of each task seen so far."""
        return [sum(own) / len(own) for own in self.returns]


@dataclass
class RewardOutcome:
    """What a session found."""

    evaluations: list[Evaluation] = field(default_factory=list)
    """In the order of time."""
    seconds: float = 0.0
    """Time spent learning and judging, over all resumed parts."""

    def curve(self) -> list[list[float]]:
        """The mean returns at each evaluation, as `uclearn.measures.rewards` wants them."""
        return [evaluation.means() for evaluation in self.evaluations]
