"""Telling people and programs how a session goes: live, quiet, or one JSON line per event."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO, get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from uclearn.errors import SettingError
from uclearn.training.session import Observer

Mode = Literal["live", "quiet", "json"]


@contextmanager
def reporting(mode: Mode, tasks: int, epochs: int, title: str = "") -> Iterator[Observer]:
    """An observer for `learn`.

    Args:
        mode: `"live"` draws a moving line with task, epoch, loss, penalty and the time left;
            `"quiet"` says nothing; `"json"` prints one line per event for other programs.
        tasks: how many there are.
        epochs: per task.
        title: what is being learned.

    >>> with reporting("quiet", tasks=2, epochs=1) as observer:
    ...     observer("task", {"task": 0})
    """
    if mode not in get_args(Mode):
        raise SettingError(f"`mode` must be one of {', '.join(get_args(Mode))}, got {mode!r}.")
    if mode == "quiet":
        yield lambda event, details: None
    elif mode == "json":
        yield json_lines(sys.stdout)
    else:
        with _Live(tasks, epochs, title) as live:
            yield live.observe


def json_lines(out: TextIO) -> Observer:
    """One JSON object per event; numbers that are not finite are null."""

    def observe(event: str, details: dict[str, Any]) -> None:
        print(json.dumps({"event": event, **_finite(details)}), file=out, flush=True)

    return observe


class _Live:
    """A moving line. Time left is judged by the work done since the start, so a resumed session
    is judged by its own speed."""

    def __init__(self, tasks: int, epochs: int, title: str) -> None:
        self.tasks, self.epochs, self.title = tasks, epochs, title
        self.console = Console(stderr=True)
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[terms]}"),
            console=self.console,
            transient=True,
        )
        self.began = time.monotonic()
        self.first: float | None = None

    def __enter__(self) -> _Live:
        self.bar.start()
        self.line = self.bar.add_task(self.title, total=1.0, left="", terms="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def observe(self, event: str, details: dict[str, Any]) -> None:
        """Show one event."""
        if event == "step":
            within = (details["epoch"] + details["batch"] / details["batches"]) / self.epochs
            self._show(details["task"], details["epoch"], within, details)
        elif event == "evaluation":
            seen = details["scores"][: details["task"] + 1]
            mean = sum(seen) / len(seen)
            self.console.print(
                f"{self.title} task {details['task'] + 1}/{self.tasks}: mean score {mean:.4f}"
            )
        elif event == "resumed":
            note = f" {details['note']}" if details["note"] else ""
            self.console.print(f"{self.title} goes on from its checkpoint.{note}")

    def _show(self, task: int, epoch: int, within: float, details: dict[str, Any]) -> None:
        done = (task + within) / self.tasks
        self.first = done if self.first is None else self.first
        self.bar.update(
            self.line,
            completed=done,
            description=f"{self.title} task {task + 1}/{self.tasks} epoch {epoch + 1}",
            left=self._time_left(done),
            terms=f"loss {details['loss']:.4f} penalty {details['penalty']:.4f}",
        )

    def _time_left(self, done: float) -> str:
        gained = done - (self.first or 0.0)
        if gained <= 0:
            return ""
        seconds = (time.monotonic() - self.began) / gained * (1 - done)
        return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
