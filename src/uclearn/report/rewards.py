"""What runs of reinforcement learning earned: returns, rewards on the scale of EWC's range, and the
figures of both (the paper's Figures 8 and 9)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from uclearn.measures.rewards import Reached, cumulative, normalised_curve, reached
from uclearn.measures.statistics import Estimate, estimate
from uclearn.report.chart import Chart, Layout, Trace, band_and_line, draw, figure, panels, plain
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Html, join, table
from uclearn.report.labels import environment_name, in_sentence
from uclearn.report.settings import method_of, seed_of
from uclearn.report.words import UNKNOWN, count, listing
from uclearn.storage.records import Summary, find_runs, read_summary

REFERENCE = "ewc"
"""Whose range rewards are normalised by."""


@dataclass(frozen=True)
class Rewards:
    """The learning curve of one run."""

    seed: int
    names: Sequence[str]
    """Of the tasks."""
    task: Sequence[int]
    """Which was being learned at each evaluation."""
    steps: Sequence[int]
    """Of all tasks, up to each evaluation."""
    returns: Sequence[Sequence[float]]
    """At each evaluation the mean return of every task seen by then."""

    def boundaries(self) -> list[int]:
        """The steps after which a task was left, the last one too."""
        following = [*self.task[1:], None]
        ends = zip(self.steps, self.task, following, strict=True)
        return [step for step, task, after in ends if task != after]


def rewards_of(summary: Summary) -> Rewards | None:
    """What a run earned; None for a run of supervised learning."""
    found = summary.extra.get("rewards")
    if not found:
        return None
    names = summary.extra.get("task_names") or []
    return Rewards(seed_of(summary.config), names, found["task"], found["steps"], found["returns"])


def ranges(references: Sequence[Rewards]) -> list[Reached]:
    """What each task's return ranged over in all runs of the reference.

    >>> ranges([Rewards(0, ["a"], [0, 0], [1, 2], [[1.0], [3.0]])])
    [Reached(least=1.0, greatest=3.0)]
    """
    return reached([returns for run in references for returns in run.returns])


def normalised_by_seed(
    runs: Sequence[Rewards], yardstick: Sequence[Reached]
) -> dict[int, list[list[float]]]:
    """By seed the curve on the scale of the yardstick."""
    return {run.seed: normalised_curve(run.returns, yardstick) for run in runs}


def cumulative_by_seed(
    runs: Sequence[Rewards], yardstick: Sequence[Reached]
) -> dict[int, list[float]]:
    """By seed, at each evaluation, the normalised rewards of all tasks seen by then, summed."""
    return {seed: cumulative(c) for seed, c in normalised_by_seed(runs, yardstick).items()}


@dataclass(frozen=True)
class Yardstick:
    """What returns are measured by: a range for each task, and whose it is."""

    ranges: Sequence[Reached]
    words: str


def yardstick(runs_by_method: Mapping[str, Sequence[Rewards]]) -> Yardstick:
    """EWC's range where EWC was run, as in the paper; otherwise the range that is stored for these
    environments; otherwise the range of all runs together."""
    if ewc := runs_by_method.get(REFERENCE):
        return Yardstick(ranges(ewc), "0 and 1 are the least and the most that EWC reached.")
    every = [run for runs in runs_by_method.values() for run in runs]
    known = stored_ranges()
    if every and all(name in known for name in every[0].names):
        return Yardstick(
            [known[name] for name in every[0].names],
            "EWC was not run: 0 and 1 are the least and the most that it reached in the runs of "
            "this project's own reproduction.",
        )
    words = "EWC was not run: 0 and 1 are the least and the most that any of these runs reached."
    return Yardstick(ranges(every), words)


def reference_ranges(folder: Path) -> dict[str, Reached]:
    """By environment, what EWC's return ranged over in all runs below `folder`."""
    found: dict[str, list[float]] = {}
    for place in find_runs(folder):
        summary = read_summary(place)
        run = None if summary is None else rewards_of(summary)
        if run is None or summary is None or method_of(summary.config) != REFERENCE:
            continue
        for task, name in enumerate(run.names):
            found.setdefault(name, []).extend(r[task] for r in run.returns if len(r) > task)
    return {name: Reached(min(own), max(own)) for name, own in sorted(found.items())}


def stored_ranges() -> dict[str, Reached]:
    """By environment, what EWC's return ranged over in the reproduction (`make results` writes
    it)."""
    text = (files("uclearn.report") / "assets" / "returns.json").read_text(encoding="utf-8")
    return {name: Reached(*found) for name, found in json.loads(text).items()}


def final_rewards(comparison: Comparison) -> list[tuple[Group, Estimate | None]]:
    """By group the cumulative normalised reward after the last task, over seeds."""
    measured_by = yardstick_of(comparison).ranges
    found = []
    for group, runs in rewards_by_group(comparison):
        courses = cumulative_by_seed(runs, measured_by)
        found.append((group, estimate([course[-1] for course in courses.values()])))
    return found


Groups = Sequence[tuple[Group, Sequence[Rewards]]]


def rewards_by_group(comparison: Comparison) -> Groups:
    """The groups that are compared, each with the learning curves of its runs; none for runs of
    supervised learning."""
    return [
        (group, [found for one in group.summaries if (found := rewards_of(one)) is not None])
        for group in comparison.compared
    ]


def yardstick_of(comparison: Comparison) -> Yardstick:
    """What the rewards of a comparison are measured by."""
    runs: dict[str, list[Rewards]] = {}
    for group, own in rewards_by_group(comparison):
        runs.setdefault(group.method, []).extend(own)
    return yardstick(runs)


def task_names(groups: Groups) -> list[str]:
    """What the tasks are called, in order."""
    first = next(runs[0] for _, runs in groups if runs)
    return [environment_name(name) for name in first.names]


def when_learned(run: Rewards, task: int) -> float:
    """The mean return of a task when its turn was over."""
    last = max(k for k, learned in enumerate(run.task) if learned == task)
    return run.returns[last][task]


def at_the_end(run: Rewards, task: int) -> float:
    """The mean return of a task when the last one was learned."""
    return run.returns[-1][task]


def rewards_figures(comparison: Comparison) -> Html:
    """Cumulative reward and reward per task; nothing for supervised learning."""
    groups = rewards_by_group(comparison)
    if not any(runs for _, runs in groups):
        return Html()
    return join(*(make(comparison, groups) for make in (_cumulative, _per_task, _returns)))


def rewards_headline(comparison: Comparison) -> str:
    """What each method earns in the end, all tasks taken together; empty if there is nothing."""
    shown = [
        f"{in_sentence(group.label)} {found.mean:.2f}"
        for group, found in final_rewards(comparison)
        if found is not None
    ]
    return f"Cumulative normalised reward after the last task: {listing(shown)}." if shown else ""


def _cumulative(comparison: Comparison, groups: Groups) -> Html:
    traces, measured_by = [], yardstick_of(comparison)
    for group, runs in groups:
        courses = list(cumulative_by_seed(runs, measured_by.ranges).values())
        if courses:
            traces += _band_and_line(comparison, group, runs[0].steps, courses)
    chart = Chart(
        data=traces,
        label=f"Line chart of the cumulative normalised reward. {rewards_headline(comparison)}",
        layout=_axes(groups, "sum of normalised rewards"),
        height=380,
    )
    rows = [
        [group.label, *_spread(found), str(len(group.runs))]
        for group, found in final_rewards(comparison)
    ]
    header = ["Method", "After the last task", "95 % interval", "Seeds"]
    return figure(
        comparison,
        "cumulative",
        "Cumulative normalised reward",
        draw(chart),
        "The rewards of all tasks met so far, each on a scale from 0 to 1, added up. Line: mean "
        "over seeds. Band: from the lowest seed to the highest. "
        f"{measured_by.words} Dotted lines: the next task begins. As Figure 8 of the "
        "paper.",
        groups=comparison.compared,
        numbers=table("Cumulative normalised reward", header, rows),
        saves=True,
    )


def _spread(found: Estimate | None) -> list[str]:
    if found is None:
        return [UNKNOWN, UNKNOWN]
    interval = " to ".join(f"{end:.2f}" for end in found.ends or ())
    return [f"{found.mean:.2f}", interval or UNKNOWN]


def _per_task(comparison: Comparison, groups: Groups) -> Html:
    charts = [
        _panel(comparison, groups, k, f"Task {k + 1}: {name}")
        for k, name in enumerate(task_names(groups))
    ]
    return figure(
        comparison,
        "rewards",
        "Reward of each task",
        panels(charts),
        "The normalised reward of each task while it and later ones are learned, mean over seeds "
        "and their range: a line that falls after its task is forgetting. Evaluated with mean "
        "weights and the most likely actions. As Figure 9 of the paper.",
        groups=comparison.compared,
    )


def _panel(comparison: Comparison, groups: Groups, task: int, title: str) -> Chart:
    traces, ends, measured_by = [], [], yardstick_of(comparison).ranges
    for group, runs in groups:
        curves = list(normalised_by_seed(runs, measured_by).values())
        if not curves:
            continue
        seen = [k for k, returns in enumerate(runs[0].returns) if len(returns) > task]
        courses = [[curve[k][task] for k in seen] for curve in curves]
        traces += _band_and_line(comparison, group, [runs[0].steps[k] for k in seen], courses)
        ends.append(f"{in_sentence(group.label)} {fmean(course[-1] for course in courses):.2f}")
    layout = _axes(groups, "") | {"margin": {"l": 40, "r": 8, "t": 4, "b": 24}}
    label = f"Line chart: normalised reward of {title}. At the end: {listing(ends)}."
    return Chart(data=traces, label=label, layout=layout, height=200, title=title)


def _returns(comparison: Comparison, groups: Groups) -> Html:
    """The raw numbers, which need no yardstick: right after each task, and at the end."""
    names = task_names(groups)
    rows = []
    for group, runs in groups:
        for when, pick in (("when learned", when_learned), ("at the end", at_the_end)):
            means = [fmean(pick(run, task) for run in runs) for task in range(len(names))]
            rows.append([f"{group.label}, {when}", *(f"{value:.0f}" for value in means)])
    return figure(
        comparison,
        "returns",
        "Returns in the environments’ own units",
        table("Mean return of an episode", ["", *names], rows),
        f"Mean over episodes and {count(len(comparison.groups[0].runs), 'seed')}.",
    )


def _band_and_line(
    comparison: Comparison, group: Group, steps: Sequence[int], seeds: Sequence[Sequence[float]]
) -> list[Trace]:
    hover = f"<b>{plain(group.label)}</b><br>%{{x:,}} steps: %{{y:.2f}}<extra></extra>"
    more = {"mode": "lines", "hovertemplate": hover}
    return band_and_line(comparison, group, steps, seeds, more)


def _axes(groups: Groups, title: str) -> Layout:
    longest = max((runs[0] for _, runs in groups if runs), key=lambda run: run.steps[-1])
    borders = [
        {
            "type": "line",
            "x0": end,
            "x1": end,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": "@line", "width": 1, "dash": "dot"},
        }
        for end in longest.boundaries()[:-1]
    ]
    y = {"title": {"text": title}} if title else {}
    return {"xaxis": {"title": {"text": "steps"} if title else {}}, "yaxis": y, "shapes": borders}
