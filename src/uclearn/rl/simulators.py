"""Builds one environment, and says what to install or to correct where that fails."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
