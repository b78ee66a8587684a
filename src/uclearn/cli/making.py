"""What all commands that make runs do: make them, show them, say how it ended."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.console import Console

from uclearn.cli.options import Mode
from uclearn.cli.tables import table_of
from uclearn.cli.watch import watching
from uclearn.ranks import present
from uclearn.runs.config import Configuration
from uclearn.runs.engines import Engine
from uclearn.runs.grid import Result, run_all
from uclearn.storage.mirror import Mirror

FAILED, BUSY, STOPPED = 1, 3, 130
"""Exit codes: a run failed; another process is still making one; stopped by the user."""

_OF_NO_CONSEQUENCE = (
    *("--out", "--data", "--workers", "--checkpoint-seconds"),
    *("--on", "--address", "--slurm", "--threads", "--gpus"),
)
_FLAGS = ("--quiet", "-q", "--json")


def make(
    jobs: Mapping[Path, Configuration],
    out: Path,
    data: Path | None,
    workers: int | None,
    mode: Mode,
    *,
    checkpoint_seconds: float = 30.0,
    title: str = "",
    device: str | None = None,
    on: Engine | None = None,
    kept: Mirror | None = None,
) -> None:
    """Make the runs, show a table of all that there are by now, and leave with an exit code.

    Args:
        jobs: runs by their folders.
        out: the folder that all of them are below, to be named in the end.
        data: the folder that holds the data sets.
        workers: how many at a time.
        mode: how to speak.
        checkpoint_seconds: how much work a crash may cost.
        title: of the table.
        device: to learn on; None: a GPU if there is one, else the CPU.
        on: what makes them; None: processes on this machine.
        kept: where runs are kept if not in `out`, which is then a copy.
    """
    mode = mode if present().is_first else "quiet"
    results = make_quietly(
        jobs,
        data,
        workers,
        mode,
        checkpoint_seconds=checkpoint_seconds,
        device=device,
        on=on,
        kept=kept,
    )
    show(results, out, mode, title)
    leave(results)


def make_quietly(
    jobs: Mapping[Path, Configuration],
    data: Path | None,
    workers: int | None,
    mode: Mode,
    *,
    checkpoint_seconds: float = 30.0,
    device: str | None = None,
    on: Engine | None = None,
    kept: Mirror | None = None,
) -> list[Result]:
    """Make the runs, showing no more than how they go; of several processes the first shows it."""
    mode = mode if present().is_first else "quiet"
    with watching(mode, list(jobs.values())) as observer:
        return run_all(
            jobs,
            data=data,
            workers=workers,
            observer=observer,
            checkpoint_seconds=checkpoint_seconds,
            command=typed(sys.argv),
            device=device,
            on=on,
            kept=kept,
        )


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


def show(results: Sequence[Result], out: Path, mode: Mode, title: str = "") -> None:
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
    if all(result.state == "done" for result in results):
        console.print(f"All {len(results)} were done before; nothing was to be made.")
    console.print(
        f"Kept in {out}. [bold]uclearn report {out}[/bold] draws figures.", soft_wrap=True
    )


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
