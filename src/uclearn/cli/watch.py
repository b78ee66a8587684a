"""Watching runs while they are made: moving lines, nothing, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from uclearn.cli.options import Mode
from uclearn.runs.config import Configuration
from uclearn.runs.grid import GridObserver


@contextmanager
def watching(mode: Mode, configs: Sequence[Configuration]) -> Iterator[GridObserver]:
    """An observer for `run_all` that speaks as `mode` says."""
    if mode == "quiet":
        yield lambda config, event, details: None
    elif mode == "json":
        yield _print_json
    elif not Console(stderr=True).is_terminal:
        yield _print_tasks
    else:
        with _Bars(configs) as bars:
            yield bars.observe


def _print_json(config: Configuration, event: str, details: dict[str, Any]) -> None:
    line = {"event": event, "run": config.folder_name(), **details}
    typer.echo(json.dumps(_finite(line)))


def _print_tasks(config: Configuration, event: str, details: dict[str, Any]) -> None:
    """For a log file: a line for each evaluation."""
    if event == "evaluation":
        typer.echo(f"{config.folder_name()}: {config.news(event, details)}", err=True)


def _finite(value: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


class _Bars:
    """A moving line for each run that is being made, and one for all together."""

    def __init__(self, configs: Sequence[Configuration]) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            transient=True,
        )
        self.total = len({config.fingerprint() for config in configs})
        self.lines: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self.progress.start()
        if self.total > 1:
            self.all = self.progress.add_task("all runs", total=self.total, note="")
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def observe(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        """Move the lines."""
        key = config.fingerprint()
        if event == "run_begins":
            name = f"{config.method} seed {config.seed}"
            self.lines[key] = self.progress.add_task(name, total=1.0, note="preparing")
        elif event == "run_ends":
            self._end(config, details)
        elif event == "step":
            done, note = config.share_done(details), config.news(event, details)
            self.progress.update(self.lines[key], completed=done, note=note)
        elif event == "evaluation":
            self.progress.update(self.lines[key], note=config.news(event, details))

    def _end(self, config: Configuration, details: dict[str, Any]) -> None:
        line = self.lines.pop(config.fingerprint(), None)
        if line is not None:
            self.progress.remove_task(line)
        if self.total > 1:
            self.progress.advance(self.all)
        if details["state"] not in ("made", "done"):
            self.console.print(f"{config.folder_name()}: {details['state']}", highlight=False)
