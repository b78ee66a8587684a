"""What a method earns in the tasks that it has met."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import torch
from numpy.typing import NDArray

from uclearn.methods.contract import Method
from uclearn.rl.environments import Environments
from uclearn.rl.evaluate import play
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import view
from uclearn.tasks import Task


class Judge:
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
