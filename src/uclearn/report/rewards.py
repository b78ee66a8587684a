"""What runs of reinforcement learning earned: returns, and rewards on the scale of EWC's range."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from uclearn.measures.rewards import Reached, cumulative, normalised_curve, reached
from uclearn.measures.statistics import Estimate, estimate
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import environment_name
from uclearn.report.settings import method_of, seed_of
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
        return [
            self.steps[k]
            for k in range(len(self.task))
            if k + 1 == len(self.task) or self.task[k + 1] != self.task[k]
        ]


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
    curves = normalised_by_seed(runs, yardstick)
    return {seed: cumulative(curve) for seed, curve in curves.items()}


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


def rewards_by_group(comparison: Comparison) -> list[tuple[Group, list[Rewards]]]:
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


def task_names(groups: Sequence[tuple[Group, Sequence[Rewards]]]) -> list[str]:
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
