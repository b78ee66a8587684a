"""What a step of many environments gives, and the episodes that add up from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


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


class Tally:
    """Adds up the episodes of `count` environments from their transitions.

    >>> tally = Tally(1)
    >>> shown, no, yes = np.zeros((1, 2), np.float32), np.array([False]), np.array([True])
    >>> tally.add(Transition(shown, np.array([2.0], np.float32), no, no, shown))
    >>> tally.add(Transition(shown, np.array([3.0], np.float32), yes, no, shown))
    >>> tally.finished()
    [Episode(return_=5.0, length=2)]
    """

    def __init__(self, count: int) -> None:
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._finished: list[Episode] = []

    def begin(self) -> None:
        """All environments start anew: what is not finished by now never will be."""
        self._returns[:], self._lengths[:] = 0.0, 0

    def add(self, transition: Transition, active: ArrayLike = True) -> None:
        """Count a step, of the environments that took it: `active`, (count,)."""
        self._returns += transition.rewards
        self._lengths += np.asarray(active)
        for i in np.flatnonzero(transition.ended):
            self._finished.append(Episode(float(self._returns[i]), int(self._lengths[i])))
            self._returns[i], self._lengths[i] = 0.0, 0

    def finished(self) -> list[Episode]:
        """The episodes completed since this was last asked."""
        finished, self._finished = self._finished, []
        return finished
