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
from uclearn.experiments.config import RunConfig
from uclearn.experiments.grid import GridObserver
from uclearn.tasks.benchmarks import benchmark


@contextmanager
def watching(mode: Mode, configs: Sequence[RunConfig]) -> Iterator[GridObserver]:
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


def _print_json(config: RunConfig, event: str, details: dict[str, Any]) -> None:
    line = {"event": event, "run": config.folder_name(), **details}
    typer.echo(json.dumps(_finite(line)))


def _print_tasks(config: RunConfig, event: str, details: dict[str, Any]) -> None:
    """For a log file: a line for each task that was learned."""
    if event == "evaluation":
        seen = details["scores"][: details["task"] + 1]
        learned = f"{details['task'] + 1}/{config.tasks or benchmark(config.benchmark).tasks}"
        mean = sum(seen) / len(seen)
        typer.echo(f"{config.folder_name()}: task {learned}, accuracy {mean:.3f}", err=True)


def _finite(value: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


class _Bars:
    """A moving line for each run that is being made, and one for all together."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
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

    def observe(self, config: RunConfig, event: str, details: dict[str, Any]) -> None:
        """Move the lines."""
        key = config.fingerprint()
        if event == "run_begins":
            name = f"{config.method} seed {config.seed}"
            self.lines[key] = self.progress.add_task(name, total=1.0, note="preparing")
        elif event == "run_ends":
            self._end(config, details)
        elif event == "step":
            self._move(config, details)
        elif event == "evaluation":
            seen = details["scores"][: details["task"] + 1]
            self.progress.update(self.lines[key], note=f"mean accuracy {sum(seen) / len(seen):.3f}")

    def _move(self, config: RunConfig, details: dict[str, Any]) -> None:
        tasks = config.tasks or benchmark(config.benchmark).tasks
        within = details["epoch"] + details["batch"] / details["batches"]
        done = (details["task"] + within / config.make_plan().epochs) / tasks
        note = f"task {details['task'] + 1}/{tasks} loss {details['loss']:.3f}"
        self.progress.update(self.lines[config.fingerprint()], completed=done, note=note)

    def _end(self, config: RunConfig, details: dict[str, Any]) -> None:
        line = self.lines.pop(config.fingerprint(), None)
        if line is not None:
            self.progress.remove_task(line)
        if self.total > 1:
            self.progress.advance(self.all)
        if details["state"] not in ("made", "done"):
            self.console.print(f"{config.folder_name()}: {details['state']}", highlight=False)
