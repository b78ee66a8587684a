"""Where the events of a session go, and how it is asked to stop."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from uclearn.session import EventSink, on_interrupt
from uclearn.storage.recorder import open_run
from uclearn.storage.records import read_run


def test_the_first_signal_asks_and_the_second_does_not_wait() -> None:
    asked = []
    before = signal.getsignal(signal.SIGINT)
    with on_interrupt(lambda: asked.append(1), (signal.SIGINT, signal.SIGTERM)):
        signal.raise_signal(signal.SIGTERM)
        assert asked == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert asked == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with on_interrupt(lambda: None, (signal.SIGINT, signal.SIGTERM)):
        now = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
        assert all(n is not b for n, b in zip(now, before, strict=True))
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_hears_nothing_and_does_not_mind() -> None:
    found = []

    def run() -> None:
        with on_interrupt(lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before]


def test_what_is_recorded_is_kept_and_told_what_is_told_is_not_kept(tmp_path: Path) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    with open_run(tmp_path, {}, "test") as run:
        events = EventSink(run, lambda event, details: told.append((event, details)))
        assert events.is_observed
        events.record("evaluation", {"scores": [1.0, float("nan")], "deep": [[float("nan")]]})
        events.tell("saved", folder="here")
        assert events.position == 1
        events.record("evaluation", {"scores": [0.5, 0.5]})
        events.rewind(1)
        assert events.position == 1
    assert [event for event, _ in told] == ["evaluation", "saved", "evaluation"]
    assert told[0][1]["scores"][1] != told[0][1]["scores"][1]  # NaN, as it was found
    (kept,) = read_run(tmp_path).events
    assert kept["scores"] == [1.0, None]
    assert kept["deep"] == [[None]]


def test_nobody_need_listen() -> None:
    events = EventSink(None, None)
    events.record("evaluation", {"scores": []})
    events.rewind(5)
    assert events.position == 0
    assert not events.is_observed
