"""What all commands that make runs do: make them, show how they go, say how it ended."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from uclearn.cli.options import Mode
from uclearn.cli.own import changed_data
from uclearn.cli.progress import watching
from uclearn.cli.tables import table_of
from uclearn.measures.capacity import concerns, layers_of
from uclearn.ranks import present
from uclearn.runs.config import Configuration
from uclearn.runs.engines import Engine
from uclearn.runs.grid import Result, run_all
from uclearn.runs.job import Job
from uclearn.storage.records import read_run

FAILED, BUSY, STOPPED = 1, 3, 130
"""Exit codes: a run failed; another process is still making one; stopped by the user."""

_OF_NO_CONSEQUENCE = (
    *("--out", "--data", "--workers", "--checkpoint-seconds", "--track"),
    *("--on", "--address", "--slurm", "--threads", "--gpus"),
)
_FLAGS = ("--quiet", "-q", "--json")


@dataclass(frozen=True)
class Launch:
    """How a command makes runs and speaks of them (see `uclearn.cli.options.Launching`)."""

    out: Path
    """The folder that all of them are below, to be named in the end."""
    mode: Mode
    data: Path | None = None
    workers: int | None = None
    device: str | None = None
    engine: Engine | None = None
    remote: str | None = None
    """Where runs are kept if not in `out`, which is then a copy."""
    checkpoint_seconds: float = 30.0
    track: str | None = None
    """Packages that show runs while they grow, with commas."""

    def job(self, config: Configuration, folder: Path | None = None) -> Job:
        """The run of a configuration; `folder` None: where it belongs below `out`."""
        return Job(
            config,
            self.out / config.folder_name() if folder is None else folder,
            data=self.data,
            device=self.device,
            checkpoint_seconds=self.checkpoint_seconds,
            command=typed(sys.argv),
            remote=self.remote,
        )

    def make(self, configs: Iterable[Configuration], title: str = "") -> None:
        """Make the runs, show a table of all that there are by now, and leave with an exit code."""
        configs = list(configs)
        if note := changed_data(self.out, configs):
            typer.echo(note, err=True)
        self.finish([self.job(config) for config in configs], title)

    def finish(self, jobs: Sequence[Job], title: str = "") -> None:
        """The same for runs in folders of any name."""
        results = self.results(jobs)
        _show(results, self.out, self._spoken, title)
        leave(results)

    def results(self, jobs: Sequence[Job]) -> list[Result]:
        """Make the runs, showing no more than how they go."""
        configs = [job.config for job in jobs]
        with watching(self._spoken, configs, self.track, self.out) as observer:
            return run_all(jobs, workers=self.workers, observer=observer, on=self.engine)

    @property
    def _spoken(self) -> Mode:
        """Of several processes the first speaks."""
        return self.mode if present().is_first else "quiet"


def typed(words: Sequence[str]) -> str | None:
    """The command that was typed, without what changes no result; None: `resume` names no run.

    >>> typed(["/usr/bin/uclearn", "run", "split-digits", "--out", "here", "--seeds=2", "--quiet"])
    'uclearn run split-digits --seeds=2'
    """
    kept, left = ["uclearn"], iter(words[1:])
    for word in left:
        option, equals, _ = word.partition("=")
        if option in _OF_NO_CONSEQUENCE and not equals:
            next(left, None)
        elif option not in (*_OF_NO_CONSEQUENCE, *_FLAGS):
            kept.append(word)
    return None if kept[1:2] == ["resume"] else shlex.join(kept)


def _show(results: Sequence[Result], out: Path, mode: Mode, title: str = "") -> None:
    """The table, or one JSON line per run."""
    if mode == "json":
        for result in results:
            summary = result.summary()
            line = {
                "event": "result",
                "folder": str(result.folder),
                "state": result.state,
                "message": result.message,
                "summary": None if summary is None else summary.to_document(),
            }
            typer.echo(json.dumps(line))
        return
    if mode == "quiet":
        return
    console = Console()
    console.print(table_of(results, title))
    for digits in sorted(_noted(results, "precision")):
        console.print(f"Computed in {digits}, as plan.precision=auto found best.")
    for who in sorted(_noted(results, "weights")):
        console.print(f"Work on the weights: {who}.", highlight=False)
    for concern in sorted(_concerns(results)):
        console.print(f"[yellow]{concern}[/yellow]", highlight=False)
    if all(result.state == "done" for result in results):
        console.print(f"All {len(results)} were done before; nothing was to be made.")
    console.print(
        f"Kept in {out}. [bold]uclearn report {out}[/bold] draws figures.", soft_wrap=True
    )


def _noted(results: Iterable[Result], key: str) -> set[str]:
    """What runs noted of something beside their results: what they were computed in, if their plan
    left that open, and who worked on the weights, if those are drawn."""
    summaries = [summary for result in results if (summary := result.summary()) is not None]
    return {str(s.extra[key]) for s in summaries if key in s.extra}


def _concerns(results: Iterable[Result]) -> set[str]:
    """What is wrong with how nodes stand after the last task, and in how many runs."""
    runs = [read_run(result.folder) for result in results if result.summary() is not None]
    voiced = [concern for run in runs for concern in concerns(layers_of(run.events))]
    return {f"In {voiced.count(text)} of {len(runs)} runs: {text}" for text in voiced}


def leave(results: Sequence[Result]) -> None:
    """Say what went wrong, one line each, and leave with its exit code."""
    for result in results:
        # what stopped one process stopped them all, and one of them says so
        if result.state == "failed" or (result.state == "stopped" and present().is_first):
            typer.echo(f"{result.state}: {result.config.folder_name()}: {result.message}", err=True)
    missing = [r for r in results if r.state == "busy" and r.summary() is None]
    for result in missing:
        typer.echo(
            f"busy: {result.config.folder_name()}: another process is making it. Run the same "
            "command again to see it.",
            err=True,
        )
    states = {result.state for result in results}
    if "failed" in states:
        raise typer.Exit(FAILED)
    if "stopped" in states:
        raise typer.Exit(STOPPED)
    if missing:
        raise typer.Exit(BUSY)
