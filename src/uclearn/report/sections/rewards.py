"""What runs of reinforcement learning earned, drawn: raw returns first, then their sum on a scale
that no compared method has a part in, then on the paper's (its Figures 8 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from uclearn.measures.statistics import Estimate, estimate
from uclearn.report.chart import (
    BAND,
    Chart,
    Fit,
    Layout,
    Readout,
    Trace,
    band_and_line,
    draw,
    figure,
    in_words,
    panels,
)
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Html, join, table
from uclearn.report.labels import in_sentence
from uclearn.report.rewards import (
    Groups,
    Yardstick,
    alone_of,
    at_the_end,
    cumulative_by_seed,
    final_rewards,
    papers_of,
    reference_rows,
    rewards_by_group,
    task_names,
    when_learned,
)
from uclearn.report.words import UNKNOWN, count, reward_spread, signed

_MOST_MARKERS = 8
"""On a line of many evaluations."""


def _lines(comparison: Comparison) -> str:
    """What is drawn, as far as it is."""
    band = f"mean over seeds.{BAND}" if comparison.has_bands else "the only seed."
    return f"Line: {band}" + (
        " Dotted lines: the next task begins." if comparison.tasks > 1 else ""
    )


def rewards_figures(comparison: Comparison) -> Html:
    """Returns, and their sums; nothing for supervised learning."""
    groups = rewards_by_group(comparison)
    if not any(runs for _, runs in groups):
        return Html()
    alone = alone_of(comparison)
    return join(
        _returns(comparison, groups),
        _per_task(comparison, groups, alone),
        _by_alone(comparison, groups, alone) if alone else Html(),
        _papers_way(comparison, groups),
    )


def _by_alone(comparison: Comparison, groups: Groups, measured_by: Yardstick) -> Html:
    return _cumulative(
        comparison,
        groups,
        measured_by,
        "cumulative",
        "Cumulative reward",
        f"The rewards of all tasks met so far, added up. On each task {measured_by.words} Less "
        f"than 0 and more than 1 can occur. {_lines(comparison)}",
    )


def _papers_way(comparison: Comparison, groups: Groups) -> Html:
    measured_by = papers_of(comparison)
    return _cumulative(
        comparison,
        groups,
        measured_by,
        "cumulative-paper",
        "Cumulative reward, normalised in the paper’s way",
        f"The rewards of all tasks met so far, added up. {measured_by.words} On a task where that "
        "range is narrow, others reach many times 1, and the sum is mostly that task’s. "
        f"{_lines(comparison)} As Figure 8 of the paper.",
    )


def _cumulative(
    comparison: Comparison,
    groups: Groups,
    measured_by: Yardstick,
    name: str,
    title: str,
    caption: str,
) -> Html:
    traces: list[Trace] = []
    for group, runs in groups:
        courses = list(cumulative_by_seed(runs, measured_by.ranges).values())
        if courses:
            traces += _band_and_line(comparison, group, runs[0].steps, courses, 2)
    found = final_rewards(comparison, measured_by)
    ends = [f"{in_sentence(group.label)} {e.mean:.2f}" for group, e in found if e is not None]
    chart = Chart(
        data=traces,
        label=f"Line chart of the {title[0].lower()}{title[1:]}. At the end: {in_words(ends)}.",
        layout=_axes(groups, "sum of normalised rewards"),
        height=380,
        fit=Fit(),
        readout=Readout("after ", " steps", percent=False, digits=2),
    )
    rows = [[group.label, reward_spread(e), str(len(group.runs))] for group, e in found]
    header = ["Method", "After the last task (± half the 95 % interval)", "Seeds"]
    return figure(
        comparison,
        name,
        title,
        draw(chart),
        caption,
        groups=comparison.compared,
        numbers=table(title, header, rows, keys=[comparison.number(group) for group, _ in found]),
    )


def _per_task(comparison: Comparison, groups: Groups, alone: Yardstick | None) -> Html:
    charts = [
        _panel(comparison, groups, k, f"Task {k + 1}: {name}", alone)
        for k, name in enumerate(task_names(groups))
    ]
    measured = (
        " Dashed: what a random policy earns, and the best that a fresh network reached alone."
        if alone
        else ""
    )
    return figure(
        comparison,
        "rewards",
        "Return of each task",
        panels(charts),
        "The mean return of each task’s episodes, in its own units, while it and later ones are "
        "learned: a line that falls after its task is forgetting. Evaluated with mean weights and "
        f"the most likely actions. {_lines(comparison)}{measured} Figure 9 of the paper shows the "
        "same by EWC’s range.",
        groups=comparison.compared,
    )


def _panel(
    comparison: Comparison, groups: Groups, task: int, title: str, alone: Yardstick | None
) -> Chart:
    traces: list[Trace] = []
    ends = []
    for group, runs in groups:
        if not runs:
            continue
        seen = [k for k, returns in enumerate(runs[0].returns) if len(returns) > task]
        courses = [[run.returns[k][task] for k in seen] for run in runs]
        steps = [runs[0].steps[k] for k in seen]
        traces += _band_and_line(comparison, group, steps, courses, 0)
        ends.append(f"{in_sentence(group.label)} {fmean(course[-1] for course in courses):.0f}")
    layout = _axes(groups, "") | {"margin": {"l": 48, "r": 8, "t": 4, "b": 24}}
    levels = [] if alone is None else list(alone.ranges[task])
    layout["shapes"] += [_level(value) for value in levels]
    return Chart(
        data=traces,
        label=f"Line chart: return of {title}. At the end: {in_words(ends)}.",
        layout=layout,
        height=200,
        title=title,
        fit=Fit(levels=levels),
        readout=Readout(f"{title}, after ", " steps", percent=False, digits=0),
    )


def _returns(comparison: Comparison, groups: Groups) -> Html:
    """The raw numbers, which need no yardstick: right after each task, and at the end."""
    names = task_names(groups)
    rows, keys = [], []
    for group, runs in groups:
        for when, pick in (("when learned", when_learned), ("at the end", at_the_end)):
            found = [estimate([pick(run, task) for run in runs]) for task in range(len(names))]
            rows.append([f"{group.label}, {when}", *map(_return_words, found)])
            keys.append(comparison.number(group))
    references = reference_rows(alone_of(comparison))
    counts = {len(runs) for _, runs in groups}
    over = count(counts.pop(), "seed") if len(counts) == 1 else "the seeds of each"
    spread = ", ± half the 95 % interval" if comparison.has_bands else ""
    return figure(
        comparison,
        "returns",
        "Returns in the environments’ own units",
        table(
            f"Mean return of an episode{spread}",
            ["Method", *names],
            [*rows, *references],
            keys=[*keys, *[-1] * len(references)],
        ),
        f"Mean over episodes and {over}.",
    )


def _return_words(found: Estimate | None) -> str:
    """A return with half the width of its interval.

    >>> _return_words(Estimate(1234.4, 3, 98.7))
    '1,234 ± 99'
    """
    if found is None:
        return UNKNOWN
    half = "" if found.half_width is None else f" ± {found.half_width:,.0f}"
    return f"{signed(found.mean, 0)}{half}"


def _band_and_line(
    comparison: Comparison,
    group: Group,
    steps: Sequence[int],
    seeds: Sequence[Sequence[float]],
    digits: int,
) -> list[Trace]:
    ends = [f"{min(now):.{digits}f} to {max(now):.{digits}f}" for now in zip(*seeds, strict=True)]
    made = band_and_line(comparison, group, steps, seeds, {"text": ends} if len(seeds) > 1 else {})
    made[-1]["marker"] |= {"size": 6, "maxdisplayed": _MOST_MARKERS}
    return made


def _level(value: float) -> dict[str, object]:
    line = {"color": "@muted", "width": 1, "dash": "dash"}
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": line,
    }


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
    x = {"title": {"text": "steps"} if title else {}, "range": [0, 1.01 * longest.steps[-1]]}
    return {"xaxis": x, "yaxis": y, "shapes": borders}
