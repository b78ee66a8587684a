"""How a run is asked to stop."""

from __future__ import annotations

import signal
import threading

import pytest

from uclearn.storage.telling import asked_politely, without_nan


def test_the_first_signal_asks_and_the_second_does_not_wait() -> None:
    asked = []
    before = signal.getsignal(signal.SIGINT)
    with asked_politely(lambda: asked.append(1), (signal.SIGINT, signal.SIGTERM)):
        signal.raise_signal(signal.SIGTERM)
        assert asked == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert asked == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with asked_politely(lambda: None, (signal.SIGINT, signal.SIGTERM)):
        now = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
        assert all(n is not b for n, b in zip(now, before, strict=True))
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_hears_nothing_and_does_not_mind() -> None:
    found = []

    def run() -> None:
        with asked_politely(lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before]


def test_nested_lists_are_cleaned_too() -> None:
    nan = float("nan")
    assert without_nan({"a": nan, "b": [[1.0, nan], 2]}) == {"a": None, "b": [[1.0, None], 2]}
