"""`uclearn sweep`: find settings without cheating."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from uclearn.cli import options
from uclearn.cli.own import Own
from uclearn.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from uclearn.runs.sweep import Judged
    from uclearn.tasks.benchmarks import Named


@dataclass(frozen=True)
class Sweeping(options.MakingAnywhere):
    """As elsewhere, in a folder of its own."""

    out: options.OutOrUrl = "sweeps"


FirstTasks: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Judge by the first so many tasks. Default: 3.", show_default=False),
]


@dataclass(frozen=True)
class Searching:
    """Options that say what all candidates have in common."""

    seeds: options.Seeds = 1
    epochs: options.Epochs = None
    preset: options.Preset = None
    settings: options.Set = None
    config: options.Config = None

    def gathered(
        self, benchmark: str, method: str | None, own: Own
    ) -> tuple[Named, str, str, dict[str, Any]]:
        """What is learned, the method, the preset, and settings by dotted key."""
        chosen = options.gathered(self.config, self.settings, plan__epochs=self.epochs)
        options.taken(chosen, "benchmark", benchmark)
        method = options.taken(chosen, "method", method) or "ucl"
        preset = options.taken(chosen, "preset", self.preset) or "default"
        return own.subject(benchmark, chosen), method, preset, chosen


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
    tasks: FirstTasks = None,
    all_tasks: Annotated[
        bool,
        typer.Option(
            "--all-tasks",
            help="Judge by all tasks, as the paper did. Whoever learns one task after another "
            "cannot do that: later tasks are not there yet.",
        ),
    ] = False,
    *,
    own: Own,
    searching: Searching,
    making: Sweeping,
) -> None:
    """Try settings and say which is best, judged by validation data of the first tasks.

    The test data are not looked at.
    """
    from uclearn.cli.launch import leave
    from uclearn.runs import sweep as tuning

    launch = making.launch()
    subject, method, preset, chosen = searching.gathered(benchmark, method, own)
    values = dict(tuning.paper_grid(subject, method)) if paper_grid else {}
    values |= tuning.parse_grid(grid or [])
    tried = tuning.candidates(
        subject,
        method,
        values,
        preset=preset,
        seeds=searching.seeds,
        tasks=None if all_tasks else tasks or first_tasks(subject),
        overrides=chosen,
    )
    results = launch.results([launch.job(each) for one in tried for each in one.configs])
    judged = tuning.judge(tried, results)
    _show(judged, launch.mode, f"{method} on {benchmark}", searching.seeds)
    leave(results)


def first_tasks(benchmark: Named) -> int:
    """So many tasks are judged by unless it is said otherwise."""
    from uclearn.runs.sweep import FIRST_TASKS
    from uclearn.tasks.benchmarks import benchmark as described

    return min(FIRST_TASKS, described(benchmark).tasks)


def _show(judged: list[Judged], mode: options.Mode, title: str, seeds: int) -> None:
    if mode == "json":
        print_json({"event": "candidate", **each._asdict()} for each in judged)
    if mode != "live":
        return
    from rich.console import Console

    columns = (*judged[0].values, "accuracy %", "forgot %")
    rows = (
        (*map(str, each.values.values()), percent(each.accuracy), percent(each.forgetting))
        for each in judged
    )
    print_table(columns, rows, title=f"{title}, judged by validation data", right=columns)
    level = [
        " ".join(f"--set {key}={value}" for key, value in each.values.items())
        for each in judged
        if each.level
    ]
    if len(level) == 1:
        Console().print(f"Best: [bold]{level[0]}[/bold]", soft_wrap=True)
    elif level:
        words = "cannot be told apart by these seeds" if seeds > 1 else "differ by less than 0.1 %"
        Console().print(f"Level at the top, {len(level)} that {words}:", soft_wrap=True)
        for each_level in level:
            Console().print(f"  [bold]{each_level}[/bold]", soft_wrap=True)


def percent(share: float | None, unknown: str = "-") -> str:
    """With two decimals."""
    return unknown if share is None else f"{100 * share:.2f}"
