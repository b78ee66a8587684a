"""One environment: how it is built, what it shows and takes, what its steps give.

Where it cannot be built, the error says what to install or to correct. What it shows and takes are
flat arrays of numbers, or a clear refusal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uclearn.errors import SimulatorError
from uclearn.rl.catalogue import SEQUENCES

if TYPE_CHECKING:
    import gymnasium

_FIRST_SEED = 0  # of the episode that is thrown away; any seed would do


def make(name: str) -> gymnasium.Env[Any, Any]:
    """The environment `name`, ready for `reset(seed=...)` to mean the same each time.

    The first episode of a PyBullet robot differs a little from all later ones with the same seed:
    only when a reset is over does the ground join the parts whose mean position is the robot's,
    and the state to return to is saved. So one episode is begun and thrown away here; from then on
    what follows a seeded reset depends on nothing that came before.
    """
    try:
        environment = _registered(name)
        environment.reset(seed=_FIRST_SEED)
    except SimulatorError:
        raise
    except Exception as error:
        raise SimulatorError(
            f"The environment {name!r} could not be built: {type(error).__name__}: {error}"
        ) from error
    return environment


def _registered(name: str) -> gymnasium.Env[Any, Any]:
    try:
        import gymnasium
        from gymnasium.error import DependencyNotInstalled, UnregisteredEnv
    except ModuleNotFoundError as error:
        raise _missing(name, error, "uclearn[rl]") from error
    try:
        if _is_bullet(name):
            import_module("pybullet_envs_gymnasium")  # registers its environments
        return gymnasium.make(name, disable_env_checker=True)
    except (ModuleNotFoundError, DependencyNotInstalled) as error:
        raise _missing(name, error, _package(name, gymnasium.registry)) from error
    except UnregisteredEnv as error:
        raise SimulatorError(
            f"There is no environment {name!r}: {str(error).rstrip('.')}. Name one that "
            "`gymnasium.make` knows (`module:Id-v0` imports your own module first), or a sequence: "
            f"{', '.join(SEQUENCES)}."
        ) from error


def _is_bullet(name: str) -> bool:
    return "BulletEnv-" in name


def _package(name: str, registry: Mapping[str, Any]) -> str | None:
    """What to install for an environment that lacks a package, if that is known."""
    if _is_bullet(name):
        return "uclearn[rl]"
    entry = str(getattr(registry.get(name), "entry_point", ""))
    return "gymnasium[mujoco]" if "mujoco" in entry else None


def _missing(name: str, error: Exception, package: str | None) -> SimulatorError:
    remedy = f'Install it: pip install "{package}"' if package else "Install it, or mend the name."
    return SimulatorError(
        f"The environment {name!r} needs a package that is not installed ({error}). {remedy}"
    )


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


def read_spaces(name: str, environment: gymnasium.Env[Any, Any]) -> Spaces:
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


class Transition(NamedTuple):
    """What one step of all environments gave; raw, neither normalised nor padded."""

    observations: NDArray[np.float32]
    """(count, observation_size): what to act on next; the start of an episode where one ended."""
    rewards: NDArray[np.float32]
    """(count,)"""
    terminated: NDArray[np.bool_]
    """(count,): the episode ended in a final state: nothing can be earned from there."""
    truncated: NDArray[np.bool_]
    """(count,): a time limit cut the episode; never true together with `terminated`."""
    final_observations: NDArray[np.float32]
    """(count, observation_size): where an episode ended its last observation; elsewhere the same
    as `observations`."""

    @property
    def ended(self) -> NDArray[np.bool_]:
        """(count,): the episode is over, in either way."""
        return self.terminated | self.truncated


class Episode(NamedTuple):
    """A completed episode."""

    return_: float
    """The sum of its raw rewards."""
    length: int
