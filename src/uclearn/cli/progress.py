"""How runs go, shown while they are made: bars in a terminal, lines in a log, JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from uclearn.cli.options import Mode
from uclearn.cli.printing import spoken
from uclearn.runs.config import Configuration
from uclearn.runs.grid import GridObserver
from uclearn.runs.track import tracking
from uclearn.storage.records import plain

Item = TypeVar("Item")
_NOT_MADE_NOW = ("done", "busy")


@contextmanager
def watching(
    mode: Mode, configs: Sequence[Configuration], track: str | None, out: Path
) -> Iterator[GridObserver]:
    """An observer for `run_all` that speaks as `mode` says, and to the trackers called `track`."""
    elsewhere = tracking(track, out, lambda text: typer.echo(text, err=True))
    with _speaking(mode, configs) as here, elsewhere as there:

        def observe(config: Configuration, event: str, details: dict[str, Any]) -> None:
            here(config, event, details)
            there(config, event, details)

        yield observe


def counted(items: Iterable[Item], total: int, what: str, mode: Mode) -> Iterator[Item]:
    """The items, with a bar for how many of them have come; in a log a line that says what for."""
    console = Console(stderr=True)
    if mode != "live" or not console.is_terminal:
        if mode == "live":
            typer.echo(f"{what}: {total}.", err=True)
        yield from items
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        line = progress.add_task(what, total=total, note=f"0 of {total}")
        for number, item in enumerate(items, start=1):
            progress.update(line, completed=number, note=f"{number} of {total}")
            yield item


@contextmanager
def _speaking(mode: Mode, configs: Sequence[Configuration]) -> Iterator[GridObserver]:
    total = len({config.fingerprint() for config in configs})
    if mode == "quiet":
        yield lambda config, event, details: None
    elif mode == "json":
        yield _print_json
    elif not (console := Console(stderr=True)).is_terminal:
        yield _Lines(Pace(total)).observe
    else:
        with _Bars(Pace(total), console) as bars:
            yield bars.observe


def _print_json(config: Configuration, event: str, details: dict[str, Any]) -> None:
    line = {"event": event, "run": config.folder_name(), **details}
    typer.echo(json.dumps(plain(line, "event")))


class Pace:
    """How many runs have ended, and how long the others take if it goes on like this.

    Args:
        total: how many runs there are.
        clock: the seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.clock = total, clock
        self.ended = 0
        self._made = 0.0
        """Work of ended runs that was done here, in runs."""
        self._shares: dict[str, tuple[float, float]] = {}
        """Of runs under way: where they began, where they are."""
        self._begun: float | None = None

    def observe(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        """Take note of an event."""
        key = config.fingerprint()
        if event == "run_begins" and self._begun is None:
            self._begun = self.clock()
        elif event == "step":
            share = config.share_done(details)
            self._shares[key] = (self._shares.get(key, (share,))[0], share)
        elif event == "run_ends":
            first, _ = self._shares.pop(key, (0.0, 0.0))
            self.ended += 1
            if details["state"] not in _NOT_MADE_NOW:
                self._made += 1.0 - first

    @property
    def done(self) -> float:
        """Runs that have ended, and the shares of those under way."""
        return self.ended + sum(share for _, share in self._shares.values())

    @property
    def left(self) -> float | None:
        """Seconds; None: nothing is known yet."""
        made = self._made + sum(share - first for first, share in self._shares.values())
        if self._begun is None or made <= 0:
            return None
        return (self.total - self.done) * (self.clock() - self._begun) / made

    @property
    def count(self) -> str:
        """As `2 of 18 runs`."""
        return f"{self.ended} of {self.total} runs"


class _Lines:
    """For a log file: what precision was found best, a line for each evaluation, and for each run
    that has ended how far all are."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace

    def observe(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        """Say what is worth a line."""
        self.pace.observe(config, event, details)
        if event in ("precision", "evaluation"):
            typer.echo(f"{config.folder_name()}: {config.news(event, details)}", err=True)
        elif event == "run_ends" and details["state"] == "made" and self.pace.total > 1:
            left = self.pace.left
            rest = f", about {spoken(left)} left" if left else ""
            typer.echo(f"{self.pace.count}{rest}", err=True)


class _TimeLeft(TimeRemainingColumn):
    """Of all runs what their pace says, of one run what rich finds."""

    def render(self, task: Task) -> Text:
        if "pace" not in task.fields:
            return super().render(task)
        left = task.fields["pace"].left
        text = "-:--:--" if left is None else str(timedelta(seconds=round(left)))
        return Text(text, style="progress.remaining")


class _Bars:
    """A moving line for each run that is being made, and one for all together."""

    def __init__(self, pace: Pace, console: Console) -> None:
        self.pace, self.console = pace, console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _TimeLeft(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self.lines: dict[str, TaskID] = {}
        self.all: TaskID | None = None

    def __enter__(self) -> _Bars:
        self.progress.start()
        if self.pace.total > 1:
            self.all = self.progress.add_task(
                "all runs", total=self.pace.total, note=self.pace.count, pace=self.pace
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def observe(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        """Move the lines."""
        self.pace.observe(config, event, details)
        key = config.fingerprint()
        if event == "run_begins":
            name = f"{config.method} seed {config.seed}"  # without a total the bar moves by itself
            self.lines[key] = self.progress.add_task(name, total=None, note="preparing")
        elif event == "run_ends":
            self._end(config, details)
        elif event == "step":
            done, note = config.share_done(details), config.news(event, details)
            self.progress.update(self.lines[key], total=1.0, completed=done, note=note)
        elif event in ("precision", "evaluation"):
            self.progress.update(self.lines[key], note=config.news(event, details))
        if self.all is not None:
            self.progress.update(self.all, completed=self.pace.done, note=self.pace.count)

    def _end(self, config: Configuration, details: dict[str, Any]) -> None:
        line = self.lines.pop(config.fingerprint(), None)
        if line is not None:
            self.progress.remove_task(line)
        if details["state"] not in ("made", "done"):
            self.console.print(f"{config.folder_name()}: {details['state']}", highlight=False)
