"""`uclearn sweep`: find settings without cheating."""

from __future__ import annotations

import json as json_lines
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from uclearn.cli import options

if TYPE_CHECKING:
    from uclearn.runs.sweep import Judged


@dataclass(frozen=True)
class Sweeping(options.MakingAnywhere):
    """As elsewhere, in a folder of its own."""

    out: options.OutOrUrl = "sweeps"


def sweep(
    benchmark: options.Benchmark,
    method: options.Method = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,C",
            help="Values to try, as ewc.strength=40,400,4000. Of several, all combinations.",
        ),
    ] = None,
    paper_grid: Annotated[
        bool, typer.Option("--paper-grid", help="Try what the authors of the paper tried.")
    ] = False,
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1, help="Judge by the first so many tasks. Default: 3.", show_default=False
        ),
    ] = None,
    all_tasks: Annotated[
        bool,
        typer.Option(
            "--all-tasks",
            help="Judge by all tasks, as the paper did. Whoever learns one task after another "
            "cannot do that: later tasks are not there yet.",
        ),
    ] = False,
    seeds: options.Seeds = 1,
    epochs: options.Epochs = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    config: options.Config = None,
    *,
    making: Sweeping,
) -> None:
    """Try settings and say which is best, judged by validation data of the first tasks.

    The test data are not looked at.
    """
    from uclearn.cli.launch import leave
    from uclearn.runs import sweep as tuning

    launch = making.launch()
    chosen = options.gathered(config, settings, plan__epochs=epochs)
    options.taken(chosen, "benchmark", benchmark)
    method = options.taken(chosen, "method", method) or "ucl"
    preset = options.taken(chosen, "preset", preset) or "best"
    values = dict(tuning.paper_grid(benchmark, method)) if paper_grid else {}
    values |= tuning.parse_grid(grid or [])
    tried = tuning.candidates(
        benchmark,
        method,
        values,
        preset=preset,
        seeds=seeds,
        tasks=None if all_tasks else tasks or first_tasks(benchmark),
        overrides=chosen,
    )
    results = launch.results([launch.job(each) for one in tried for each in one.configs])
    _show(tuning.judge(tried, results), launch.mode, f"{method} on {benchmark}")
    leave(results)


def first_tasks(benchmark: str) -> int:
    """So many tasks are judged by unless it is said otherwise."""
    from uclearn.runs.sweep import FIRST_TASKS
    from uclearn.tasks.benchmarks import benchmark as described

    return min(FIRST_TASKS, described(benchmark).tasks)


def _show(judged: list[Judged], mode: options.Mode, title: str) -> None:
    if mode == "json":
        for each in judged:
            typer.echo(json_lines.dumps({"event": "candidate", **each._asdict()}))
    if mode != "live":
        return
    from rich.console import Console
    from rich.table import Table

    from uclearn.cli.tables import spread

    table = Table(title=f"{title}, judged by validation data")
    for column in (*judged[0].values, "accuracy %", "forgot %"):
        table.add_column(column, justify="right")
    for each in judged:
        accuracy = [] if each.accuracy is None else [each.accuracy]
        fall = [] if each.forgetting is None else [each.forgetting]
        table.add_row(*map(str, each.values.values()), spread(accuracy, 2), spread(fall, 2))
    console = Console()
    console.print(table)
    if judged[0].accuracy is not None:
        best = " ".join(f"--set {key}={value}" for key, value in judged[0].values.items())
        console.print(f"Best: [bold]{best}[/bold]", soft_wrap=True)
