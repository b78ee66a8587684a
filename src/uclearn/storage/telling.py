"""Who is told what happens during a run, and how a run is asked to stop.

Supervised training and reinforcement learning share these; neither knows the other.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from uclearn.errors import UclearnError

Observer = Callable[[str, dict[str, Any]], None]
"""Told (event, details) while it happens: task, step (a few times a second), epoch or iteration,
evaluation, saved, resumed, finished."""


class StoppedError(UclearnError):
    """The user asked to stop; the state was saved where one is kept."""


class Journal(Protocol):
    """Where events are kept for good, such as `uclearn.storage.recorder.RunRecorder`."""

    @property
    def position(self) -> int:
        """How many events are recorded."""
        ...

    def append(self, event: str, details: dict[str, Any], /) -> None:
        """Record an event."""
        ...

    def rewind(self, position: int, /) -> None:
        """Forget the events after the first `position`."""
        ...


def without_nan(details: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN: scores that cannot be had are null.

    >>> without_nan({"scores": [1.0, float("nan")]})
    {'scores': [1.0, None]}
    """

    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(v) for v in value]
        return None if isinstance(value, float) and value != value else value

    return {key: clean(value) for key, value in details.items()}


class Audience:
    """Who hears of a run: a journal keeps what was found, an observer looks on, if any."""

    def __init__(self, journal: Journal | None, observer: Observer | None) -> None:
        self._journal, self._observer = journal, observer

    @property
    def looks_on(self) -> bool:
        """Whether it is worth finding out what is only told, not kept."""
        return self._observer is not None

    @property
    def position(self) -> int:
        """How many events are kept: what a checkpoint should remember, for `rewind`."""
        return 0 if self._journal is None else self._journal.position

    def rewind(self, position: int) -> None:
        """Forget the events after the first `position`: they will happen again."""
        if self._journal is not None:
            self._journal.rewind(position)

    def record(self, event: str, details: dict[str, Any]) -> None:
        """Have it kept, and tell it."""
        if self._journal is not None:
            self._journal.append(event, without_nan(details))
        self.tell(event, **details)

    def tell(self, event: str, **details: Any) -> None:
        """Say it once."""
        if self._observer is not None:
            self._observer(event, details)


@contextmanager
def asked_politely(
    ask: Callable[[], None], signals: Iterable[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """Within: the first of `signals` calls `ask`; a second one does not wait.

    Only the main thread hears signals; in another, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def hear(number: int, frame: Any) -> None:
        restore()
        ask()

    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        restore()
