"""What was earned, as a table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from rich import box
from rich.table import Table

from uclearn.measures.rewards import Reached
from uclearn.report.rewards import Rewards, cumulative_by_seed, rewards_of, yardstick
from uclearn.runs.grid import Result
from uclearn.storage.records import Summary


def rewards_table(results: Sequence[Result], title: str = "") -> Table:
    """A line for each configuration: the mean return of each task at the end, and the cumulative
    normalised reward."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.config.fingerprint(with_seed=False), []).append(result)
    tasks = max((result.config.task_count() for result in results), default=0)
    table = Table(title=title or results[0].config.benchmark, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for column in [*(f"task {k + 1}" for k in range(tasks)), "cumulative", "s"]:
        table.add_column(column, justify="right", no_wrap=True)
    runs: dict[str, list[Rewards]] = {}
    for result in results:
        if (found := _rewards(result)) is not None:
            runs.setdefault(result.config.method, []).append(found)
    measured_by = yardstick(runs)
    for group in groups.values():
        table.add_row(*_row(group, tasks, measured_by.ranges))
    table.caption = (
        "mean return of each task's episodes after the last task; cumulative: normalised and "
        f"summed over tasks. {measured_by.words}"
    )
    table.caption_justify = "left"
    return table


def _row(group: Sequence[Result], tasks: int, measured_by: Sequence[Reached]) -> list[str]:
    config = group[0].config
    notes = [note.removeprefix(f"{config.method}.") for note in config.changed]
    name = "\n  ".join([config.method, *notes])
    done = [found for result in group if (found := _rewards(result)) is not None]
    if not done:
        return [name, *["-"] * (tasks + 2)]
    last = [fmean(run.returns[-1][k] for run in done) for k in range(tasks)]
    sums = [course[-1] for course in cumulative_by_seed(done, measured_by).values()]
    known = [value for value in sums if not math.isnan(value)]
    seconds = fmean(s.seconds for result in group if (s := result.summary()) is not None)
    return [
        name,
        *(f"{value:.0f}" for value in last),
        f"{fmean(known):.2f}" if known else "-",
        f"{seconds:.0f}",
    ]


def _rewards(result: Result) -> Rewards | None:
    summary: Summary | None = result.summary()
    return None if summary is None else rewards_of(summary)
