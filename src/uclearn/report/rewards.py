"""What runs of reinforcement learning earned: raw returns, and the two scales that they are put on
to be summed over tasks.

Alone: 0 is what a random policy earns, 1 the best that a fresh network reached on that task alone,
with the same steps. No method that is compared has a part in it. The paper's: 0 and 1 are the least
and the most that EWC reached, so a task on which EWC hardly moved outweighs all others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from uclearn.measures.rewards import Reached, cumulative, normalised_curve, reached
from uclearn.measures.statistics import Estimate, estimate
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import environment_name, in_sentence
from uclearn.report.settings import method_of, seed_of
from uclearn.report.words import listing
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
    random: Sequence[float] = ()
    """What a random policy earns on each task; empty in older records."""

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
    learned = (found["task"], found["steps"], found["returns"])
    return Rewards(seed_of(summary.config), names, *learned, found.get("random") or ())


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
    name: str = "the paper’s way"
    """In short; not of the fresh networks' scale."""


def alone_yardstick(names: Sequence[str], references: Sequence[Rewards]) -> Yardstick | None:
    """For each environment from what a random policy earns to the best that a fresh network
    reached alone, in all runs of it; None where a run is missing.

    >>> alone = Rewards(0, ["a"], [0, 0], [1, 2], [[5.0], [3.0]], [1.0])
    >>> alone_yardstick(["a"], [alone]).ranges
    [Reached(least=1.0, greatest=5.0)]
    >>> alone_yardstick(["a", "b"], [alone]) is None
    True
    """
    found = []
    for name in names:
        own = [run for run in references if list(run.names) == [name] and run.random]
        if not own:
            return None
        best = max(returns[0] for run in own for returns in run.returns)
        found.append(Reached(fmean(run.random[0] for run in own), best))
    stuck = [
        environment_name(n) for n, r in zip(names, found, strict=True) if r.greatest <= r.least
    ]
    words = (
        "0 is what a random policy earns, 1 the best that a fresh network reached alone with the "
        "same steps."
    )
    if stuck:
        words += f" Not counted, since alone it did no better than chance: {listing(stuck)}."
    return Yardstick(found, words)


def papers_yardstick(runs_by_method: Mapping[str, Sequence[Rewards]]) -> Yardstick:
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
    return Yardstick(ranges(every), words, "the range of these runs")


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


def final_rewards(
    comparison: Comparison, measured_by: Yardstick
) -> list[tuple[Group, Estimate | None]]:
    """By group the cumulative normalised reward after the last task, over seeds."""
    found = []
    for group, runs in rewards_by_group(comparison):
        courses = cumulative_by_seed(runs, measured_by.ranges)
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


def references_of(comparison: Comparison) -> list[Rewards]:
    """What fresh networks earned alone on the tasks of a comparison."""
    summaries = [run.summary for run in comparison.references if run.summary is not None]
    return [found for one in summaries if (found := rewards_of(one)) is not None]


def alone_of(comparison: Comparison) -> Yardstick | None:
    """The scale that no compared method has a part in; None where its runs are missing."""
    found = rewards_of(comparison.reference.summaries[0])
    return None if found is None else alone_yardstick(found.names, references_of(comparison))


def papers_of(comparison: Comparison) -> Yardstick:
    """The paper's scale."""
    runs: dict[str, list[Rewards]] = {}
    for group, own in rewards_by_group(comparison):
        runs.setdefault(group.method, []).extend(own)
    return papers_yardstick(runs)


def task_names(groups: Groups) -> list[str]:
    """What the tasks are called, in order."""
    first = next(runs[0] for _, runs in groups if runs)
    return [environment_name(name) for name in first.names]


def reference_rows(alone: Yardstick | None) -> list[list[str]]:
    """Two rows of a table of returns, one cell per task: what 0 and 1 stand for."""
    if alone is None:
        return []
    return [
        ["Random policy", *(f"{reach.least:.0f}" for reach in alone.ranges)],
        ["Fresh network alone, best", *(f"{reach.greatest:.0f}" for reach in alone.ranges)],
    ]


def when_learned(run: Rewards, task: int) -> float:
    """The mean return of a task when its turn was over."""
    last = max(k for k, learned in enumerate(run.task) if learned == task)
    return run.returns[last][task]


def at_the_end(run: Rewards, task: int) -> float:
    """The mean return of a task when the last one was learned."""
    return run.returns[-1][task]


def rewards_headline(comparison: Comparison) -> str:
    """What each method earns in the end, all tasks taken together; empty if there is nothing."""
    alone = alone_of(comparison)
    shown = [
        f"{in_sentence(group.label)} {found.mean:.2f}"
        for group, found in final_rewards(comparison, alone or papers_of(comparison))
        if found is not None
    ]
    scale = (
        "where a fresh network alone has 1 per task" if alone else "normalised in the paper’s way"
    )
    return f"Reward after the last task, {scale}, summed: {listing(shown)}." if shown else ""


def final_returns(comparison: Comparison) -> dict[str, list[tuple[Group, Estimate]]]:
    """By task what each group earns at the end in the environment's own units, the most first."""
    groups = [(group, runs) for group, runs in rewards_by_group(comparison) if runs]
    if not groups:
        return {}
    found: dict[str, list[tuple[Group, Estimate]]] = {}
    for task, name in enumerate(task_names(groups)):
        own = [(g, estimate([at_the_end(run, task) for run in runs])) for g, runs in groups]
        known = [(group, earned) for group, earned in own if earned is not None]
        found[name] = sorted(known, key=lambda pair: -pair[1].mean)
    return found


def returns_headline(comparison: Comparison) -> str:
    """Who earns most at the end, task by task, raw; empty if there is nothing."""
    best = [
        f"{name} {found[0][1].mean:,.0f} ({in_sentence(found[0][0].label)})"
        for name, found in final_returns(comparison).items()
    ]
    return f"Highest mean return after the last task: {listing(best)}." if best else ""
