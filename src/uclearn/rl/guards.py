"""What goes into environments, and what comes out, must be numbers of the right kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uclearn.errors import SettingError, SimulatorError


def sound_seed(seed: int) -> int:
    """A seed that workers understand."""
    if not 0 <= seed < 1 << 63:
        raise SettingError(f"`seed` must be a whole number from 0 to 2^63 - 1, got {seed}.")
    return seed


def sound_actions(name: str, actions: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float32]:
    """(count, action_size): a row of finite numbers for each environment."""
    array = np.asarray(actions, np.float32)
    if array.shape != shape:
        raise SettingError(
            f"`actions` must have the shape {shape}, a row per environment of {name!r}, got "
            f"{array.shape}."
        )
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0]
        raise SettingError(
            f"`actions` must be finite, got {array[i, j]} as number {j} for environment {i} of "
            f"{name!r}. Has the policy diverged? A smaller learning rate may help."
        )
    return array


def check_answers(name: str, table: NDArray[np.void]) -> None:
    """Refuse observations and rewards that are not finite: learning from them destroys all."""
    for field in ("final_observations", "observations", "rewards"):
        values = table[field].reshape(len(table), -1)  # (count, numbers)
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            what = "a reward of" if field == "rewards" else f"an observation whose number {j} is"
            raise SimulatorError(
                f"Environment {i} of {name!r} gave {what} {values[i, j]}. The simulation broke "
                "down: smaller actions or a smaller time step may help. A saved run can be resumed."
            )
