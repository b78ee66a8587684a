"""Results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from rich.table import Table

from uclearn.experiments.config import RunConfig
from uclearn.experiments.grid import Result
from uclearn.report.paper import departures, published
from uclearn.tasks.benchmarks import benchmark


def results_table(results: Sequence[Result], title: str = "") -> Table:
    """A line for each configuration, its seeds taken together."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.config.fingerprint(with_seed=False), []).append(result)
    several = len({result.config.benchmark for result in results}) > 1
    heading = title or ("" if several or not results else results[0].config.benchmark)
    table = Table(title=heading)
    for column in (["benchmark"] if several else []) + ["method"]:
        table.add_column(column, overflow="fold", min_width=10)
    for column in ("seeds", "accuracy", "forgot", "learned", "seconds", "memory", "kept"):
        table.add_column(column, justify="right")
    shows_paper = any(_printed(group) for group in groups.values())
    if shows_paper:
        table.add_column("paper", justify="right")
    common = _common([group[0].config for group in groups.values()])
    for group in groups.values():
        row = [group[0].config.benchmark] if several else []
        row += [_label(group[0].config, common), *_numbers(group)]
        table.add_row(*row, *([_printed(group)] if shows_paper else []))
    table.caption = _caption(results, common, shows_paper)
    return table


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Percent: the mean, and with several values their standard deviation.

    >>> spread([0.5]), spread([0.5, 0.6])
    ('50.0 %', '55.0 % ± 7.1')
    """
    if not values:
        return "-"
    mean = f"{100 * fmean(values):.{digits}f} %"
    return mean if len(values) < 2 else f"{mean} ± {100 * stdev(values):.{digits}f}"


def _numbers(group: Sequence[Result]) -> list[str]:
    done = [summary for result in group if (summary := result.summary()) is not None]
    if not done:
        return ["0", *["-"] * 6]
    memory = [s.peak_memory for s in done if s.peak_memory is not None]
    return [
        str(len(done)),
        spread([s.average_accuracy for s in done if s.average_accuracy is not None]),
        spread([s.forgetting for s in done if s.forgetting is not None]),
        spread([s.extra["learning_accuracy"] for s in done if "learning_accuracy" in s.extra]),
        f"{fmean(s.seconds for s in done):.0f}",
        f"{fmean(memory) / 1e6:.0f} MB" if memory else "-",
        f"{done[0].parameters_kept:,}",
    ]


def _printed(group: Sequence[Result]) -> str:
    """The paper's number; a star where ours may not stand beside it."""
    config = group[0].config
    number = published(config.benchmark, config.method)
    if number is None or number.accuracy is None:
        return ""
    tasks = config.tasks or benchmark(config.benchmark).tasks
    star = "*" if departures(config.document(), tasks, number) else ""
    return f"{100 * number.accuracy:.1f} %{star}"


def _common(configs: Sequence[RunConfig]) -> set[str]:
    """Changes that all of them share: said once, below the table."""
    return set.intersection(*(set(config.changed) for config in configs)) if configs else set()


def _label(config: RunConfig, common: set[str]) -> str:
    own = [note for note in config.changed if note not in common]
    scaled = [] if config.scale is None else [f"scale {config.scale:g}"]
    return ", ".join([config.method, *scaled, *own])


def _caption(results: Sequence[Result], common: set[str], shows_paper: bool) -> str:
    lines = [
        "accuracy: mean over all tasks, after the last one",
        "learned: the same of each task right after it was learned",
    ]
    if common:
        lines.append(f"all with {', '.join(sorted(common))}")
    if any(result.config.scale is not None for result in results):
        lines.append("SCALED: fewer epochs than the paper's; not to be compared with it")
    if shows_paper:
        lines.append("* not the same experiment: other settings, epochs or tasks than the paper's")
    return "\n".join(lines)
