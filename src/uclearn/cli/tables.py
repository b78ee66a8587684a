"""Results as tables for the terminal: accuracies, or what was earned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from rich import box
from rich.table import Table

from uclearn.measures.rewards import Reached
from uclearn.paper.numbers import published
from uclearn.report.labels import departures
from uclearn.report.rewards import Rewards, cumulative_by_seed, rewards_of, yardstick
from uclearn.runs.config import Configuration
from uclearn.runs.grid import Result
from uclearn.storage.records import Summary
from uclearn.tasks.benchmarks import benchmark

Group = Sequence[Result]
"""Runs that differ in nothing but the seed."""


def table_of(results: Sequence[Result], title: str = "") -> Table:
    """What fits the runs: accuracies, or rewards where they learned to act."""
    supervised = [result for result in results if result.config.kind_of_run().name == "supervised"]
    return results_table(supervised, title) if supervised else rewards_table(results, title)


def results_table(results: Sequence[Result], title: str = "") -> Table:
    """A line for each configuration, its seeds taken together; narrow enough for 80 columns."""
    groups = _groups(results)
    names = {result.config.benchmark for result in results}
    heading = title or (names.copy().pop() if len(names) == 1 else "")
    papers = [_printed(group) for group in groups]
    table = Table(title=heading, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.caption_justify = "left"
    for column in [*(["benchmark"] if len(names) > 1 else []), "method"]:
        table.add_column(column, no_wrap=True)
    numbers = ("accuracy", "forgot", "learned", "s", "MB", "kept")
    for column in [*numbers, *(["paper"] if any(papers) else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    common = set.intersection(*(set(group[0].config.changed) for group in groups))
    for group, paper in zip(groups, papers, strict=True):
        row = [group[0].config.benchmark] if len(names) > 1 else []
        row += [_label(group, common), *_numbers(_done(group))]
        table.add_row(*row, *([paper] if any(papers) else []))
    table.caption = _caption(groups, common, any(papers))
    return table


def spread(values: Sequence[float], digits: int = 1) -> str:
    """In percent: the mean, and with several values their standard deviation.

    >>> spread([0.5]), spread([0.5, 0.6])
    ('50.0', '55.0 ± 7.1')
    """
    if not values:
        return "-"
    mean = f"{100 * fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * stdev(values):.{digits}f}"


def _groups(results: Sequence[Result]) -> list[Group]:
    alike: dict[str, list[Result]] = {}
    for result in results:
        alike.setdefault(result.config.fingerprint(with_seed=False), []).append(result)
    return list(alike.values())


def _done(group: Group) -> list[Summary]:
    return [summary for result in group if (summary := result.summary()) is not None]


def _numbers(done: Sequence[Summary]) -> list[str]:
    if not done:
        return ["-"] * 6
    memory = [s.peak_memory for s in done if s.peak_memory is not None]
    return [
        spread([s.average_accuracy for s in done if s.average_accuracy is not None]),
        spread([s.forgetting for s in done if s.forgetting is not None]),
        spread([s.extra["learning_accuracy"] for s in done if "learning_accuracy" in s.extra]),
        f"{fmean(s.seconds for s in done):.0f}",
        f"{fmean(memory) / 1e6:.0f}" if memory else "-",
        f"{done[0].parameters_kept:,}",
    ]


def _printed(group: Group) -> str:
    """The paper's number; a star where ours may not stand beside it."""
    config = group[0].config
    number = published(config.benchmark, config.method)
    if number is None or number.accuracy is None:
        return ""
    tasks = config.tasks or benchmark(config.benchmark).tasks
    star = "*" if departures(config.document(), tasks, number) else ""
    return f"{100 * number.accuracy:.1f}{star}"


def _label(group: Group, common: set[str]) -> str:
    """The method; below it what sets it apart; how many seeds where some are missing."""
    config = group[0].config
    lines = [config.method, *_own_notes(config, common)]
    if (done := len(_done(group))) < len(group):
        lines.append(f"{done} of {len(group)} seeds")
    return "\n  ".join(lines)


def _own_notes(config: Configuration, common: set[str]) -> list[str]:
    own = [note for note in config.changed if note not in common]
    short = [note.removeprefix(f"{config.method}.") for note in own]
    return short if config.scale is None else [f"scale {config.scale:g}", *short]


def _caption(groups: Sequence[Group], common: set[str], shows_paper: bool) -> str:
    lines = [
        "accuracy: % over all tasks, after the last; learned: of each task, right after it",
        "kept: numbers that have to be kept to learn another task",
    ]
    seeds = max(len(group) for group in groups)
    if seeds > 1:
        lines.append(f"{seeds} seeds, mean ± standard deviation")
    if common:
        lines.append(f"all with {', '.join(sorted(common))}")
    if any(group[0].config.scale is not None for group in groups):
        lines.append("SCALED: fewer epochs than the paper's; not to be compared with it")
    if shows_paper:
        lines.append("* not the same experiment: other settings, epochs or tasks than the paper's")
    return "\n".join(lines)


def rewards_table(results: Sequence[Result], title: str = "") -> Table:
    """A line for each configuration: the mean return of each task at the end, and the cumulative
    normalised reward."""
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
    for group in _groups(results):
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
    return None if (summary := result.summary()) is None else rewards_of(summary)
