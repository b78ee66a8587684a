"""Many copies of one environment, stepped together in a few worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uclearn.errors import SettingError, SimulatorError, TaskError
from uclearn.rl.simulators import Episode, Spaces, Transition
from uclearn.rl.workers import Worker


class Environments:
    """`count` environments in `workers` processes: a few processes that step many each.

    The same seed and actions give the same bits, however many workers there are; `reset(seed)`
    means the same whatever came before. After an error all workers are gone: make new ones.

    Args:
        name: an id that `gymnasium.make` knows, with Box spaces.
        count: how many environments.
        workers: how many processes they are spread over.

    >>> with Environments("Pendulum-v1", count=3, workers=1) as environments:
    ...     environments.reset(seed=7).shape, environments.step(np.zeros((3, 1))).rewards.shape
    ((3, 3), (3,))
    """

    def __init__(self, name: str, *, count: int = 128, workers: int = 2) -> None:
        for argument, value in (("count", count), ("workers", workers)):
            if value < 1:
                raise SettingError(f"`{argument}` must be at least 1, got {value}.")
        self.name, self.count = name, count
        bounds = [count * k // min(workers, count) for k in range(min(workers, count) + 1)]
        self._workers = [Worker(name, a, b - a) for a, b in pairwise(bounds)]
        with self._closed_on_error():
            self.spaces, *_ = [worker.spaces() for worker in self._workers]
        self._table = np.zeros(count, self.spaces.record())
        self.observation_size, self.action_size = self.spaces[:2]
        self._returns, self._lengths = np.zeros(count), np.zeros(count, np.int64)
        self._finished: list[Episode] = []
        self._begun = False

    def reset(self, seed: int = 0) -> NDArray[np.float32]:
        """Start every environment anew, number i from (seed, i).

        Returns:
            The first observations, (count, observation_size).
        """
        if not 0 <= seed < 1 << 63:
            raise SettingError(f"`seed` must be a whole number from 0 to 2^63 - 1, got {seed}.")
        workers = self._open()
        with self._closed_on_error():
            for worker in workers:
                worker.reset(seed)
            self._receive()
        self._returns[:], self._lengths[:] = 0.0, 0  # the episodes cut here never finish
        self._begun = True
        return self._table["observations"].copy()

    def step(self, actions: ArrayLike, active: ArrayLike = True) -> Transition:
        """Let every environment act once; where an episode ends, the next begins at once.

        Args:
            actions: (count, action_size), clipped here to the bounds of the action space.
            active: (count,), where to act; the others stay as they are, with a reward of 0.
        """
        workers, shape = self._open(), (self.count, self.action_size)
        if not self._begun:
            raise TaskError(f"The environments {self.name!r} have not begun: call `reset` first.")
        clipped = self.spaces.clip(sound_actions(self.name, actions, shape))
        acting = np.broadcast_to(np.asarray(active, np.bool_), self.count)
        with self._closed_on_error():
            for worker in workers:
                worker.step(acting, clipped)
            self._receive()
        transition = Transition(*(self._table[field].copy() for field in Transition._fields))
        self._returns += transition.rewards
        self._lengths += acting
        for i in np.flatnonzero(transition.ended):
            self._finished.append(Episode(float(self._returns[i]), int(self._lengths[i])))
            self._returns[i], self._lengths[i] = 0.0, 0
        return transition

    def finished(self) -> list[Episode]:
        """The episodes completed since this was last asked."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """End the workers; harmless if they have ended already."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> list[Worker]:
        if not self._workers:
            raise TaskError(
                f"The environments {self.name!r} are closed, by `close` or by an error. Make new "
                "ones."
            )
        return self._workers

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """After an error, or Ctrl-C, answers may be on their way still: nothing can go on."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _receive(self) -> None:
        for worker in self._workers:
            worker.receive(self._table)
        check_answers(self.name, self._table)


def survey(names: Sequence[str]) -> dict[str, Spaces]:
    """The spaces of several environments: to find out early whether all can be had, and how wide.

    Each is built once in a process of its own; asked again, this process remembers.

    >>> survey(["Pendulum-v1"])["Pendulum-v1"].action_size
    1
    """
    workers = [Worker(name, 0, 1) for name in dict.fromkeys(names) if name not in _SURVEYED]
    try:
        _SURVEYED.update({worker.name: worker.spaces() for worker in workers})
    finally:
        for worker in workers:
            worker.close()
    return {name: _SURVEYED[name] for name in names}


_SURVEYED: dict[str, Spaces] = {}


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
