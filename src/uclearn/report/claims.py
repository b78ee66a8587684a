"""What the paper says of its results, held against ours: each claim is computed, none is typed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan
from statistics import fmean
from typing import Literal

from uclearn.measures.accuracy import known
from uclearn.measures.capacity import QUANTILES
from uclearn.measures.rewards import normalised
from uclearn.measures.statistics import Estimate, paired_difference
from uclearn.paper.numbers import published
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import in_sentence, method_name
from uclearn.report.rewards import (
    Rewards,
    alone_of,
    at_the_end,
    rewards_by_group,
    when_learned,
)
from uclearn.report.sections.accuracy import ablation_families
from uclearn.report.settings import ablated, epochs_of
from uclearn.report.words import difference, percent

_NOTICEABLE = 0.01
"""Smaller changes of the median of sigma / initial sigma count as none."""

Verdict = Literal["**Holds**", "**Does not hold**", "**Not decided**"]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, and what the runs say of it."""

    text: str
    verdict: Verdict
    difference: str
    """By how much, with the 95 % interval if there is one."""
    evidence: str
    """Of what that is the difference."""

    @property
    def is_decided(self) -> bool:
        """One way or the other."""
        return self.verdict != "**Not decided**"


def claims(comparison: Comparison) -> list[Claim]:
    """All claims of the paper that the runs of a comparison confirm, refute or leave open."""
    if not comparison.classifies:
        return reward_claims(comparison)
    if not comparison.is_whole:
        return []
    parts = (_target, _order, _ablations, _histograms)
    return [claim for part in parts for claim in part(comparison)]


def _target(comparison: Comparison) -> Iterator[Claim]:
    number = published(comparison.benchmark, "ucl")
    own = [g for g in comparison.compared if g.method == "ucl" and g.accuracy is not None]
    if number is None or number.accuracy is None or not own or comparison.tasks != number.tasks:
        return
    best = max(own, key=_mean)
    epochs, found = epochs_of(best.config), best.accuracy
    short = epochs is not None and epochs < number.epochs and _mean(best) < number.accuracy
    length = f" with {epochs} of {number.epochs} epochs" if short else ""
    apart = found and replace(found, mean=found.mean - number.accuracy)
    yield Claim(
        f"UCL reaches the paper’s {percent(number.accuracy)}",
        "**Not decided**" if short else _verdict(_mean(best) >= number.accuracy),
        difference(apart),
        f"{best.label}: {percent(_mean(best))}{length}",
    )


def _order(comparison: Comparison) -> Iterator[Claim]:
    """UCL above each method that the paper compares it with: of several settings the one with most
    seeds, then the best."""
    ucl = comparison.reference
    if ucl.method != "ucl":
        return
    for method in dict.fromkeys(group.method for group in comparison.compared):
        if method == "ucl" or published(comparison.benchmark, method) is None:
            continue
        own = [group for group in comparison.compared if group.method == method]
        rival = max(own, key=lambda group: len(group.runs))
        ahead = ucl.against(rival)
        if ahead is not None:
            yield Claim(
                f"UCL is ahead of {in_sentence(method_name(method))}",
                _beyond_chance((ahead, 1)),
                difference(ahead),
                f"{ucl.label} against {in_sentence(rival.label)}",
            )


def _ablations(comparison: Comparison) -> Iterator[Claim]:
    for whole, *others in ablation_families(comparison):
        if whole.is_ablation or comparison.tasks < 4:
            continue
        for group in others:
            switches = ablated(group.config)
            if switches == ["inflate"]:
                yield _collapse(comparison, whole, group)
            elif len(switches) == 1:
                yield _forgets(comparison, whole, group)


def _collapse(comparison: Comparison, whole: Group, group: Group) -> Claim:
    late = range(comparison.tasks // 2, comparison.tasks)
    first = _gained(group, whole, range(2))
    later = _gained(group, whole, late, when_learned=True)
    return Claim(
        "Without eq. (6) the first two tasks are kept better, and later ones are learned worse",
        _beyond_chance((first, 1), (later, -1)),
        f"{difference(first)}; {difference(later)}",
        "Tasks 1 and 2 at the end; tasks of the second half when learned",
    )


def _forgets(comparison: Comparison, whole: Group, group: Group) -> Claim:
    lost = _gained(group, whole, range(comparison.tasks // 2))
    return Claim(
        f"{group.label}: old tasks are forgotten",
        _beyond_chance((lost, -1)),
        difference(lost),
        "Tasks of the first half at the end",
    )


def _histograms(comparison: Comparison) -> Iterator[Claim]:
    """The paper's three observations on Figure 4, for a network of three Gaussian layers."""
    found = list(spreads(comparison.reference).values())
    if len(found) != 3 or comparison.tasks < 3:
        return
    first, second, output = found
    low, median, _ = first[-1]
    yield Claim(
        "In layer 1 most nodes become less certain, a few very certain",
        _verdict(median > 1 and low < 0.5),
        f"median {median:.2f}, 1 % quantile {low:.2f}",
        "σ / initial σ at the end",
    )
    yield Claim(
        "The output layer becomes certain early",
        _verdict(output[1][1] < min(1.0, first[1][1], second[1][1])),
        _listed(layer[1][1] for layer in found),
        "Median of σ / initial σ after task 2, layer by layer",
    )
    course = [after[1] for after in second]
    steps = [b - a for a, b in pairwise([1.0, *course])]
    yield Claim(
        "Layer 2 does not change in one direction only",
        _verdict(min(steps) < -_NOTICEABLE and max(steps) > _NOTICEABLE),
        f"up by {max(0.0, *steps):.2f}, down by {-min(0.0, *steps):.2f} at most",
        "Median of σ / initial σ from task to task",
    )


def reward_claims(comparison: Comparison) -> list[Claim]:
    """Of reinforcement learning: who keeps the first task better than fine-tuning does, and learns
    the others as well; of several settings of a method the one with most seeds."""
    groups = rewards_by_group(comparison)
    plain = next((runs for group, runs in groups if group.method == "finetuning"), None)
    if not plain or comparison.tasks < 2:
        return []
    found = []
    for method in dict.fromkeys(group.method for group, runs in groups if runs):
        own = [one for one in groups if one[0].method == method]
        group, runs = max(own, key=lambda one: len(one[1]))
        if runs is not plain:
            found += [*_keeps(group, runs, plain), *_learns(comparison, group, runs, plain)]
    return found


def _learns(
    comparison: Comparison, group: Group, own: Sequence[Rewards], plain: Sequence[Rewards]
) -> Iterator[Claim]:
    """By the reward of each task but the first when its turn was over."""
    scale = alone_of(comparison)
    if scale is None:
        return

    def learned(runs: Sequence[Rewards]) -> dict[int, float]:
        return {
            run.seed: fmean(
                value
                for task in range(1, comparison.tasks)
                if not isnan(value := normalised(when_learned(run, task), scale.ranges[task]))
            )
            for run in runs
        }

    if all(reach.greatest <= reach.least for reach in scale.ranges[1:]):
        return
    ours, theirs = learned(own), learned(plain)
    found = paired_difference(ours, theirs)
    means = [f"{fmean(each.values()):.2f}" for each in (ours, theirs)]
    yield Claim(
        f"{method_name(group.method)} learns new tasks as well as fine-tuning",
        _beyond_chance((found, 1)),
        difference(found),
        f"{group.label}: {means[0]} and {means[1]} of what a fresh network reaches alone, tasks 2 "
        f"to {comparison.tasks}",
    )


def _keeps(group: Group, own: Sequence[Rewards], plain: Sequence[Rewards]) -> Iterator[Claim]:
    """By the share that is left of what was reached when the first task was learned. Only where
    that return was positive does a share of it mean anything."""
    if not (_positive(own) and _positive(plain)):
        return
    ours, theirs = _kept(own), _kept(plain)
    found = paired_difference(ours, theirs)
    ends = [fmean(at_the_end(run, 0) for run in runs) for runs in (own, plain)]
    shares = [f"{100 * fmean(kept.values()):.0f} %" for kept in (ours, theirs)]
    yield Claim(
        f"{method_name(group.method)} keeps more of the first task’s reward than fine-tuning",
        _beyond_chance((found, 1)),
        difference(found),
        f"{group.label}: {shares[0]} and {shares[1]} of what was reached are left (returns at the "
        f"end: {ends[0]:.0f} and {ends[1]:.0f})",
    )


def _positive(runs: Sequence[Rewards]) -> bool:
    return bool(runs) and all(when_learned(run, 0) > 0 for run in runs)


def _kept(runs: Sequence[Rewards]) -> dict[int, float]:
    return {run.seed: at_the_end(run, 0) / when_learned(run, 0) for run in runs}


def _listed(values: Iterator[float] | Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _mean(group: Group) -> float:
    return group.accuracy.mean if group.accuracy is not None else float("-inf")


def _gained(
    group: Group, whole: Group, tasks: range, *, when_learned: bool = False
) -> Estimate | None:
    """How much more accurate `group` is than `whole` on average over some tasks, after the last one
    was learned or each right after it was."""
    means: list[dict[int, float]] = []
    for one in (group, whole):
        rows = [[m[k if when_learned else -1][k] for k in tasks] for m in one.matrices]
        measured = [known(row) for row in rows]
        means.append(dict(zip(one.seeds, (sum(row) / len(row) for row in measured), strict=True)))
    return paired_difference(*means)


def _beyond_chance(*found: tuple[Estimate | None, int]) -> Verdict:
    """Of differences and the sign each should have: decided where the intervals exclude 0."""
    if any(e is not None and e.excludes_zero and e.mean * sign < 0 for e, sign in found):
        return "**Does not hold**"
    sure = all(e is not None and e.excludes_zero for e, _ in found)
    return "**Holds**" if sure else "**Not decided**"


def _verdict(holds: bool) -> Verdict:
    return "**Holds**" if holds else "**Does not hold**"


SHOWN = tuple(QUANTILES.index(share) for share in (0.01, 0.5, 0.99))
"""Which of the recorded quantiles."""


def spreads(group: Group) -> dict[str, list[list[float]]]:
    """Per layer, after each task, the 1 % quantile, the median and the 99 % quantile of sigma /
    initial sigma, mean over seeds; empty where the runs keep none."""
    digests = [summary.extra.get("nodes") for summary in group.summaries]
    kept = [digest for digest in digests if isinstance(digest, Mapping)]
    if not kept or len(kept) < len(digests):
        return {}
    return {
        name: [
            [fmean(nodes[k] for nodes in after_task) for k in SHOWN]
            for after_task in zip(*(digest[name] for digest in kept), strict=True)
        ]
        for name in kept[0]
    }
