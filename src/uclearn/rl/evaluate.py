"""What a policy earns: one episode in each of a few environments, from fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from uclearn.errors import SettingError
from uclearn.rl.environments import Environments

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Raw observations (count, observation_size) to actions (count, action_size)."""


def play(
    environments: Environments | str,
    act: Act,
    *,
    episodes: int = 10,
    seed: int,
    workers: int = 2,
) -> NDArray[np.float64]:
    """The raw returns of `episodes` episodes: the first of as many environments, (episodes,).

    The same seed means the same starts each time. An environment whose episode is over rests until
    the others are done.

    Args:
        environments: where to play, at least `episodes` of them, all started anew; or a name, for
            which they are built and closed again (keep them open if you evaluate often).
        act: the policy, given the observations of all environments, also of those that rest.
        episodes: how many.
        seed: environment i starts from (seed, i).
        workers: processes to build, if a name is given.

    >>> play("Pendulum-v1", lambda shown: np.zeros((len(shown), 1)), episodes=2, seed=0).shape
    (2,)
    """
    if isinstance(environments, str):
        with Environments(environments, count=episodes, workers=workers) as built:
            return play(built, act, episodes=episodes, seed=seed)
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
