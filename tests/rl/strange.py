"""Environments whose every number is known beforehand, and some that misbehave.

Found by the workers as `tests.rl.strange:Name-v0`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

HERE = "tests.rl.strange"
LIMIT = 3  # steps in an episode

Shown = NDArray[np.float32]


class Counter(gymnasium.Env[Shown, NDArray[np.float32]]):
    """Shows [steps in this episode, episodes so far, last action]; pays the action."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Box(np.array([-1.0, -2.0], np.float32), np.array([1.0, np.inf], np.float32))
    terminates = True

    def __init__(self) -> None:
        self.steps, self.episodes, self.last = 0, -1, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Shown, Any]:
        super().reset(seed=seed)
        if seed is not None:
            self.episodes = -1
        self.steps, self.last = 0, 0.0
        self.episodes += 1
        return self.shown(), {}

    def shown(self) -> Shown:
        return np.array([self.steps, self.episodes, self.last], np.float32)

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        self.steps += 1
        self.last = float(action[0])
        return self.shown(), self.last, self.terminates and self.steps == LIMIT, False, {}


class Endless(Counter):
    """Has no end of its own: the registered limit cuts it."""

    terminates = False


class Raises(Counter):
    """Fails when told to."""

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        if action[0] > 0.5:
            raise ValueError("the knee gave way")
        return super().step(action)


class Aborts(Counter):
    """Takes its whole process down when told to, as a fault in a simulator's C code does."""

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        if action[0] > 0.5:
            os.abort()
        return super().step(action)


class Sleeps(Counter):
    """Takes longer than anyone would wait."""

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        time.sleep(600)
        return super().step(action)


class Breaks(Counter):
    """Shows no number, or pays an infinite one, when told to."""

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        shown, reward, *ends = super().step(action)
        if action[0] > 0.5:
            shown[1] = np.nan
        return shown, -np.inf if action[0] < -0.5 else reward, *ends


class Chatters(Counter):
    """Prints more than a pipe holds, past Python too."""

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        for stream in (sys.stdout, sys.stderr):
            print("chatter " * 20_000, file=stream, flush=True)
        os.write(1, b"chatter\n")
        os.write(2, b"chatter\n")
        return super().step(action)


class Modules(Counter):
    """Shows whether torch was imported in its process."""

    def shown(self) -> Shown:
        return np.array([float("torch" in sys.modules), 0.0, 0.0], np.float32)


class Keyed(Counter):
    """Shows a dictionary."""

    observation_space: Any = Dict({"angle": Box(-1.0, 1.0, (1,))})


class Switched(Counter):
    """Takes one of three choices."""

    action_space: Any = Discrete(3)


class Squared(Counter):
    """Shows and takes little matrices."""

    observation_space = Box(-np.inf, np.inf, (1, 3), np.float32)
    action_space = Box(-1.0, 1.0, (2, 2), np.float32)

    def shown(self) -> Shown:
        return np.array([[self.steps, self.episodes, self.last]], np.float32)

    def step(self, action: NDArray[np.float32]) -> tuple[Shown, float, bool, bool, Any]:
        return super().step(action[1])


STRANGE = (Counter, Raises, Aborts, Sleeps, Breaks, Chatters, Modules, Keyed, Switched, Squared)
for strange in STRANGE:
    gymnasium.register(f"{strange.__name__}-v0", f"{HERE}:{strange.__name__}")
gymnasium.register("Limited-v0", f"{HERE}:Endless", max_episode_steps=LIMIT)
gymnasium.register("Both-v0", f"{HERE}:Counter", max_episode_steps=LIMIT)
