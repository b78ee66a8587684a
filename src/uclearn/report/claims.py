"""What the paper says of its results, held against ours: each claim is computed, none is typed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Literal

from uclearn.measures.accuracy import known
from uclearn.measures.capacity import QUANTILES
from uclearn.measures.statistics import Estimate, paired_difference
from uclearn.paper.numbers import published
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import in_sentence
from uclearn.report.rewards import Rewards, at_the_end, rewards_by_group, when_learned
from uclearn.report.sections.accuracy import ablation_families
from uclearn.report.settings import ablated, epochs_of
from uclearn.report.words import difference, percent, points

_NOTICEABLE = 0.01
"""Smaller changes of the median of sigma / initial sigma count as none."""

Verdict = Literal["**Holds**", "**Does not hold**", "**Not decided**"]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, and what the runs say of it."""

    text: str
    verdict: Verdict
    evidence: str


def claims(comparison: Comparison) -> list[Claim]:
    """All claims of the paper that the runs of a comparison confirm, refute or leave open."""
    parts = (_target, _order, _ablations, _histograms)
    return [claim for part in parts for claim in part(comparison)]


def _target(comparison: Comparison) -> Iterator[Claim]:
    number = published(comparison.benchmark, "ucl")
    own = [g for g in comparison.compared if g.method == "ucl" and g.accuracy is not None]
    if number is None or number.accuracy is None or not own or comparison.tasks != number.tasks:
        return
    best = max(own, key=_mean)
    epochs = epochs_of(best.config)
    short = epochs is not None and epochs < number.epochs and _mean(best) < number.accuracy
    length = f" with {epochs} of the paper’s {number.epochs} epochs" if short else ""
    yield Claim(
        f"UCL reaches the paper’s {percent(number.accuracy)}.",
        "**Not decided**" if short else _verdict(_mean(best) >= number.accuracy),
        f"The best here is {best.label}: {percent(_mean(best))}{length}"
        + (f" (the paper’s number: {number.words})." if number.words else "."),
    )


def _order(comparison: Comparison) -> Iterator[Claim]:
    """UCL above each method that the paper compares it with."""
    ucl = comparison.reference
    for rival in comparison.compared:
        if ucl.method != "ucl" or rival.method == "ucl":
            continue
        if published(comparison.benchmark, rival.method) is None:
            continue
        ahead = ucl.against(rival)
        if ahead is not None:
            yield Claim(
                f"{ucl.label} is ahead of {in_sentence(rival.label)}.",
                _beyond_chance((ahead, 1)),
                f"Points: {difference(ahead)}.",
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
        "Without eq. (6) the first two tasks are kept better, and later ones are learned worse.",
        _beyond_chance((first, 1), (later, -1)),
        f"Points for tasks 1 and 2 at the end: {difference(first)}; for those of the second half "
        f"when learned: {difference(later)}.",
    )


def _forgets(comparison: Comparison, whole: Group, group: Group) -> Claim:
    lost = _gained(group, whole, range(comparison.tasks // 2))
    return Claim(
        f"{group.label}: old tasks are forgotten.",
        _beyond_chance((lost, -1)),
        f"Points for tasks of the first half at the end: {difference(lost)}.",
    )


def _histograms(comparison: Comparison) -> Iterator[Claim]:
    """The paper's three observations on Figure 4, for a network of three Gaussian layers."""
    found = list(spreads(comparison.reference).values())
    if len(found) != 3 or comparison.tasks < 3:
        return
    first, second, output = found
    low, median, _ = first[-1]
    yield Claim(
        "In layer 1 most nodes become less certain, a few very certain.",
        _verdict(median > 1 and low < 0.5),
        f"At the end the median of σ / initial σ is {median:.2f}, the 1 % quantile {low:.2f}.",
    )
    yield Claim(
        "The output layer becomes certain early.",
        _verdict(output[1][1] < min(1.0, first[1][1], second[1][1])),
        f"Medians after task 2, layer by layer: {_listed(layer[1][1] for layer in found)}.",
    )
    course = [after[1] for after in second]
    steps = [b - a for a, b in pairwise([1.0, *course])]
    yield Claim(
        "Layer 2 does not change in one direction only.",
        _verdict(min(steps) < -_NOTICEABLE and max(steps) > _NOTICEABLE),
        f"Its medians after each task: {_listed(course)}.",
    )


def reward_claims(comparison: Comparison) -> list[Claim]:
    """Of reinforcement learning: who keeps the first task better than fine-tuning does. Only where
    its return was positive does a share of it mean anything."""
    groups = rewards_by_group(comparison)
    plain = next(((g, runs) for g, runs in groups if g.method == "finetuning"), None)
    if plain is None or comparison.tasks < 2:
        return []
    return [
        _keeps(group.label, runs, plain[1])
        for group, runs in groups
        if group is not plain[0] and _positive(runs) and _positive(plain[1])
    ]


def _keeps(label: str, own: Sequence[Rewards], plain: Sequence[Rewards]) -> Claim:
    """By the share that is left of what was reached when the first task was learned."""
    ours, theirs = _kept(own), _kept(plain)
    found = paired_difference(ours, theirs)
    ends = [fmean(at_the_end(run, 0) for run in runs) for runs in (own, plain)]
    shares = [f"{100 * fmean(kept.values()):.0f} %" for kept in (ours, theirs)]
    ahead = sum(ours[seed] > theirs[seed] for seed in ours if seed in theirs)
    told = (
        f"Left of what was reached: {shares[0]} and {shares[1]} (returns at the end: "
        f"{ends[0]:.0f} and {ends[1]:.0f}); more with {ahead} of {len(ours)} seeds"
    )
    if found is not None and found.ends is not None:
        told += f", {points(found.mean)} points ({' to '.join(map(points, found.ends))})"
    text = f"{label} keeps more of the first task’s reward than fine-tuning."
    return Claim(text, _beyond_chance((found, 1)), f"{told}.")


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
