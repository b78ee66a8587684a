"""What an environment shows and what it takes: flat arrays of numbers, or a clear refusal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uclearn.errors import SimulatorError

if TYPE_CHECKING:
    import gymnasium


class Spaces(NamedTuple):
    """The sizes of one environment, flattened, and the bounds of its actions."""

    observation_size: int
    action_size: int
    low: tuple[float, ...]
    """(action_size,): the smallest value of each action; minus infinity where there is none."""
    high: tuple[float, ...]

    def clip(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """(count, action_size): actions within the bounds.

        >>> Spaces(3, 1, (-2.0,), (2.0,)).clip(np.array([[5.0], [-1.0]], dtype=np.float32))
        array([[ 2.],
               [-1.]], dtype=float32)
        """
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        return np.clip(actions, low, high)

    def record(self) -> np.dtype[np.void]:
        """One environment's row in what a worker sends back after a step."""
        return np.dtype(
            [
                ("observations", np.float32, (self.observation_size,)),
                ("final_observations", np.float32, (self.observation_size,)),
                ("rewards", np.float32),
                ("terminated", np.bool_),
                ("truncated", np.bool_),
            ]
        )


def read(name: str, environment: gymnasium.Env[Any, Any]) -> Spaces:
    """The sizes and bounds of an environment whose spaces are boxes of numbers."""
    shown = _box(name, "observation", environment.observation_space)
    taken = _box(name, "action", environment.action_space)
    if not np.issubdtype(taken.dtype, np.floating):
        raise SimulatorError(
            f"The action space of {name!r} must be a Box of floats, got {taken}. A policy with "
            "Gaussian actions cannot act in whole numbers."
        )
    low, high = (tuple(map(float, bound.reshape(-1))) for bound in (taken.low, taken.high))
    return Spaces(math.prod(shown.shape), math.prod(taken.shape), low, high)


def _box(name: str, which: str, space: Any) -> Any:
    from gymnasium.spaces import Box

    if not isinstance(space, Box) or math.prod(space.shape) == 0:
        raise SimulatorError(
            f"The {which} space of {name!r} must be a Box with at least one number, got {space}. "
            f"Only Box spaces are supported: wrap the environment (gymnasium.wrappers has "
            "FlattenObservation for a Dict of boxes), or choose another."
        )
    return space
