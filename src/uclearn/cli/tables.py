"""Results as tables for the terminal: accuracies, or what was earned."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich import box
from rich.table import Table

from uclearn.measures.accuracy import known
from uclearn.measures.statistics import estimate
from uclearn.paper.numbers import published
from uclearn.report.labels import departures
from uclearn.report.rewards import (
    Rewards,
    Yardstick,
    alone_yardstick,
    cumulative_by_seed,
    papers_yardstick,
    reference_rows,
    rewards_of,
)
from uclearn.report.words import reward_spread
from uclearn.report.words import spread as spread_words
from uclearn.runs.config import Configuration
from uclearn.runs.grid import Result
from uclearn.storage.records import Summary

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


def spread(values: Sequence[float]) -> str:
    """In percent: the mean, and with several values half its 95 % interval.

    >>> spread([0.5]), spread([0.5, 0.6])
    ('50.0', '55.0 ± 63.5')
    """
    return spread_words(estimate(values)) if values else "-"


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
        spread(known(s.extra.get("learning_accuracy") for s in done)),
        f"{fmean(s.seconds for s in done):.0f}",
        f"{fmean(memory) / 1e6:.0f}" if memory else "-",
        f"{done[0].parameters_kept:,}",
    ]


def _printed(group: Group) -> str:
    """The paper's number; a star where ours may not stand beside it."""
    config = group[0].config
    number = published(config.benchmark, config.method)
    if number is None or number.accuracy is None or number.tasks != config.task_count():
        return ""
    star = "*" if departures(config.document(), config.task_count(), number) else ""
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
    judged = [group[0].config.document().get("source") or {} for group in groups]
    lines = [
        "accuracy: % of the variance that is explained (R²), over all tasks, after the last"
        if any(source.get("regression") for source in judged)
        else "accuracy: % over all tasks, after the last; learned: of each task, right after it",
        "kept: numbers that have to be kept to learn another task",
    ]
    seeds = max(len(group) for group in groups)
    if seeds > 1:
        lines.append(f"{seeds} seeds, mean ± half the 95 % interval")
    if common:
        lines.append(f"all with {', '.join(sorted(common))}")
    if any(group[0].config.scale is not None for group in groups):
        lines.append("SCALED: fewer epochs than the paper's; not to be compared with it")
    if shows_paper:
        lines.append("* not the same experiment: other settings, epochs or tasks than the paper's")
    return "\n".join(lines)


def rewards_table(results: Sequence[Result], title: str = "") -> Table:
    """A line for each configuration: the mean return of each task at the end, and their sums on
    both scales (see `uclearn.report.rewards`)."""
    longest = max(results, key=lambda result: result.config.task_count())
    tasks = longest.config.task_count()
    apart = [r for r in results if tasks > 1 and r.config.task_count() == 1]
    shown = [result for result in results if result not in apart]
    table = Table(title=title or longest.config.benchmark, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for column in [*(f"task {k + 1}" for k in range(tasks)), "sum", "paper's", "s"]:
        table.add_column(column, justify="right", no_wrap=True)
    runs: dict[str, list[Rewards]] = {}
    for result in shown:
        if (found := _rewards(result)) is not None:
            runs.setdefault(result.config.method, []).append(found)
    names = next((own[0].names for own in runs.values()), ())
    alone = alone_yardstick(names, _earned(apart)) if names and apart else None
    papers = papers_yardstick(runs)
    for group in _groups(shown):
        table.add_row(*_row(group, tasks, [alone, papers]))
    for name, *levels in reference_rows(alone):
        table.add_row(name.lower(), *levels, "", "", "")
    said = ["mean return of each task's episodes after the last task"]
    if alone is not None:
        said.append(f"sum: over tasks; on each, {alone.words}")
    elif tasks > 1:
        said.append("sum: not known, since no fresh network has learned each task alone (yet)")
    said.append(f"paper's: the same in the paper's way. {papers.words}")
    if max(len(group) for group in _groups(shown)) > 1:
        said.append("mean ± half the 95 % interval, over seeds")
    table.caption, table.caption_justify = "\n".join(said), "left"
    return table


def _row(group: Sequence[Result], tasks: int, scales: Sequence[Yardstick | None]) -> list[str]:
    config = group[0].config
    notes = [note.removeprefix(f"{config.method}.") for note in config.changed]
    name = "\n  ".join([config.method, *notes])
    done = _earned(group)
    if not done:
        return [name, *["-"] * (tasks + 3)]
    last = [fmean(run.returns[-1][k] for run in done) for k in range(tasks)]
    seconds = fmean(s.seconds for result in group if (s := result.summary()) is not None)
    sums = [_sum(done, scale) for scale in scales]
    return [name, *(f"{value:.0f}" for value in last), *sums, f"{seconds:.0f}"]


def _sum(runs: Sequence[Rewards], measured_by: Yardstick | None) -> str:
    if measured_by is None:
        return "-"
    sums = [course[-1] for course in cumulative_by_seed(runs, measured_by.ranges).values()]
    return reward_spread(estimate(sums))


def _earned(results: Sequence[Result]) -> list[Rewards]:
    return [found for result in results if (found := _rewards(result)) is not None]


def _rewards(result: Result) -> Rewards | None:
    return None if (summary := result.summary()) is None else rewards_of(summary)
