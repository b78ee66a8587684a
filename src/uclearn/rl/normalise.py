"""Running statistics of what a task shows and pays, and numbers of about unit size from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

EPSILON = 1e-8
LARGEST = 10.0  # standard deviations; beyond, values are clipped


class RunningMoments:
    """Mean and variance of all that was seen, batch by batch, as exact as over all data at once.

    Chan's rule, in float64: with n values seen and m new ones whose means differ by δ, the mean
    moves by δ·m/(n+m), and the sum of squared deviations grows by that of the new ones and
    δ²·n·m/(n+m). Before anything is seen the mean is 0 and the variance 1: normalising by them
    changes nothing.

    >>> moments = RunningMoments(())
    >>> for batch in ([1.0, 2.0], [6.0]):
    ...     moments.update(batch)
    >>> float(moments.mean), round(float(moments.variance), 6)
    (3.0, 4.666667)
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0
        self.mean = np.zeros(shape)
        self._squares = np.zeros(shape)

    @property
    def variance(self) -> NDArray[np.float64]:
        """The mean squared deviation from the mean."""
        return self._squares / self.count if self.count else np.ones_like(self.mean)

    def update(self, batch: ArrayLike) -> None:
        """See new values, (batch, *shape)."""
        values = np.asarray(batch, np.float64)
        new, mean = len(values), values.mean(axis=0)
        total, delta = self.count + new, mean - self.mean
        self._squares = (
            self._squares
            + ((values - mean) ** 2).sum(axis=0)
            + delta**2 * (self.count * new / total)
        )
        self.mean = self.mean + delta * (new / total)
        self.count = total

    def state(self) -> dict[str, Any]:
        """All it knows, as a number and tensors that a checkpoint can hold."""
        return {
            "count": self.count,
            "mean": torch.tensor(self.mean),
            "squares": torch.tensor(self._squares),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.count = int(state["count"])
        self.mean = state["mean"].numpy().copy()
        self._squares = state["squares"].numpy().copy()


class Normaliser:
    """Observations and rewards of one task, brought to about unit size; kept with the task.

    Observations become (x − mean) / √(variance + ε). Rewards, whose sign and zero carry meaning,
    are only divided by the standard deviation of the running discounted return,
    R ← γ·R + reward, begun anew with each episode. Both are clipped to ±10.

    Args:
        observation_size: numbers in an observation.
        discount: γ.

    >>> normaliser = Normaliser(1)
    >>> normaliser.observe(np.array([[1.0], [3.0]]))
    >>> normaliser.observations(np.array([[1.0], [4.0]])).tolist()
    [[-1.0], [2.0]]
    """

    def __init__(self, observation_size: int, *, discount: float = 0.99) -> None:
        self.discount = discount
        self.frozen = False
        """True: `observe` changes nothing any more. So is it for a task that is only evaluated."""
        self._shown = RunningMoments((observation_size,))
        self._earned = RunningMoments(())
        self._returns: NDArray[np.float64] = np.zeros(0)  # (count,): discounted, running

    def observe(
        self,
        observations: NDArray[np.float32],
        rewards: NDArray[np.float32] | None = None,
        ended: NDArray[np.bool_] | None = None,
    ) -> None:
        """Learn from one step of all environments, or, without rewards, from their start.

        Args:
            observations: (count, observation_size), raw.
            rewards: (count,), raw. Without them, running returns begin anew.
            ended: (count,), where the episode is over with this reward.
        """
        if self.frozen:
            return
        self._shown.update(observations)
        if rewards is None:
            self._returns = np.zeros(len(observations))
            return
        if len(self._returns) != len(rewards):
            self._returns = np.zeros(len(rewards))
        self._returns = self.discount * self._returns + rewards
        self._earned.update(self._returns)
        if ended is not None:
            self._returns[ended] = 0.0

    def observations(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """(count, observation_size): centred, of unit variance, clipped."""
        scale = np.sqrt(self._shown.variance + EPSILON)
        return _clipped((raw - self._shown.mean) / scale)

    def rewards(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        """(count,): divided by the spread of discounted returns, clipped."""
        return _clipped(raw / np.sqrt(self._earned.variance + EPSILON))

    def state(self) -> dict[str, Any]:
        """All it knows, in numbers and tensors that a checkpoint can hold."""
        return {
            "observations": self._shown.state(),
            "returns": self._earned.state(),
            "running": torch.tensor(self._returns),
            "frozen": self.frozen,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self._shown.load_state(state["observations"])
        self._earned.load_state(state["returns"])
        self._returns = state["running"].numpy().copy()
        self.frozen = bool(state["frozen"])


def _clipped(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.clip(values, -LARGEST, LARGEST).astype(np.float32)
