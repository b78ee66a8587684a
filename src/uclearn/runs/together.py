"""A study that several processes of this machine work on (see `uclearn.runs.tune`)."""

from __future__ import annotations

import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from uclearn.errors import SettingError, UclearnError
from uclearn.runs.config import Configuration, read_config
from uclearn.runs.engines.children import Children, send
from uclearn.runs.grid import GridObserver, threads_for
from uclearn.runs.tune import Maker, Tried, Tuning, tune
from uclearn.session import StoppedError


def tune_together(
    tuning: Tuning, maker: Maker, trials: int, *, workers: int = 1, **how: Any
) -> list[Tried]:
    """As `tune`, with so many trials at a time; each process has a fair share of the cores.

    Args:
        tuning: what is tuned.
        maker: where runs are made; its observer is told in this process.
        trials: how many there shall be, with those of earlier calls.
        workers: how many at a time.
        how: the other arguments of `tune`.
    """
    if workers < 1:
        raise SettingError(f"`workers` must be at least 1, got {workers}.")
    if workers > 1:
        _Workers(maker.observer).run(
            workers,
            (tuning, replace(maker, observer=None, threads=threads_for(workers)), trials, how),
        )
    # what a process that died has left is made here, and all trials are read
    return tune(tuning, maker, trials, **how)


class _Workers:
    def __init__(self, observer: GridObserver | None) -> None:
        self.observer = observer
        self.configs: dict[str, Configuration] = {}
        self.stopped: str | None = None
        self.error: str | None = None

    def run(self, count: int, given: tuple[Any, ...]) -> None:
        children, interrupts = Children(), 0
        try:
            for _ in range(count):
                children.start(_work, *given)
            while children.alive:
                try:
                    for child, message in children.listen():
                        if message is not None:
                            self._hear(*message)
                        sys.stderr.write(child.words)  # none while it is at work
                except KeyboardInterrupt:  # they got it too and are saving
                    interrupts += 1
                    if interrupts > 1:
                        children.terminate()
        finally:
            children.terminate()
        if self.error is not None:
            raise SettingError(self.error)
        if self.stopped is not None or interrupts:
            raise StoppedError(self.stopped or "stopped as asked")

    def _hear(self, what: str, details: dict[str, Any]) -> None:
        if what == "stopped":
            self.stopped = details["message"]
        elif what == "failed":
            self.error = details["message"]
        elif self.observer is not None:
            run, event = details["run"], details["event"]
            if details["config"] is not None:
                self.configs[run] = read_config(details["config"])
            self.observer(self.configs[run], event, details["details"])


def _work(
    tuning: Tuning, maker: Maker, trials: int, how: dict[str, Any], messages: Connection
) -> None:
    def tell(config: Configuration, event: str, details: dict[str, Any]) -> None:
        new = event in ("run_begins", "run_ends")  # in between its name will do
        told = {
            "run": config.fingerprint(),
            "config": config.document() if new else None,
            "event": event,
            "details": details,
        }
        if not send(messages, "event", told):
            raise StoppedError("The process that asked for this trial has ended.")

    try:
        tune(tuning, replace(maker, observer=tell), trials, **how)
    except (StoppedError, KeyboardInterrupt) as stop:
        send(messages, "stopped", {"message": str(stop) or "stopped as asked"})
    except UclearnError as error:
        send(messages, "failed", {"message": str(error)})
