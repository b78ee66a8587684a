"""Two tasks that are learned in seconds, of different sizes. No torch: workers import this file.

In each, the best action is a fixed linear function of what is shown: a step pays minus the squared
distance from it. Found by the workers as `tests.rl.little:Aim-v0` and `tests.rl.little:Turn-v0`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

HERE = "tests.rl.little"
LIMIT = 20

Shown = NDArray[np.float32]


class Aim(gymnasium.Env[Shown, Shown]):
    """Shows 3 random numbers, wants 1."""

    wanted = np.array([[0.8, -0.8, 0.4]])

    def __init__(self) -> None:
        actions, numbers = self.wanted.shape
        self.observation_space = Box(-np.inf, np.inf, (numbers,), np.float32)
        self.action_space = Box(-2.0, 2.0, (actions,), np.float32)
        self.shown = np.zeros(numbers, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Shown, Any]:
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-1, 1, self.shown.shape).astype(np.float32)
        return self.shown, {}

    def step(self, action: Shown) -> tuple[Shown, float, bool, bool, Any]:
        reward = -float(np.square(action - self.wanted @ self.shown).sum())
        self.shown = self.np_random.uniform(-1, 1, self.shown.shape).astype(np.float32)
        return self.shown, reward, False, False, {}


class Turn(Aim):
    """Shows 5 random numbers, wants 2, of the first three the opposite of Aim."""

    wanted = np.array([[-0.8, 0.8, -0.4, 0.5, 0.0], [0.3, 0.0, 0.9, 0.0, -0.6]])


for little in (Aim, Turn):
    gymnasium.register(
        f"{little.__name__}-v0", f"{HERE}:{little.__name__}", max_episode_steps=LIMIT
    )
