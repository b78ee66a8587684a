"""What was earned while acting: the paper's Figures 8 and 9."""

from collections.abc import Sequence
from statistics import fmean

from uclearn.measures.statistics import Estimate
from uclearn.report.chart import Chart, Layout, Trace, band_and_line, draw, figure, panels, plain
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Html, join, table
from uclearn.report.labels import in_sentence
from uclearn.report.rewards import (
    Rewards,
    at_the_end,
    cumulative_by_seed,
    final_rewards,
    normalised_by_seed,
    rewards_by_group,
    task_names,
    when_learned,
    yardstick_of,
)
from uclearn.report.words import UNKNOWN, count, listing

Groups = Sequence[tuple[Group, Sequence[Rewards]]]


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
    if not shown:
        return ""
    return f"Cumulative normalised reward after the last task: {listing(shown)}."


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
        numbers=_cumulative_numbers(comparison),
        saves=True,
    )


def _cumulative_numbers(comparison: Comparison) -> Html:
    rows = [
        [group.label, *_spread(found), str(len(group.runs))]
        for group, found in final_rewards(comparison)
    ]
    header = ["Method", "After the last task", "95 % interval", "Seeds"]
    return table("Cumulative normalised reward", header, rows)


def _spread(found: Estimate | None) -> list[str]:
    if found is None:
        return [UNKNOWN, UNKNOWN]
    interval = " to ".join(f"{end:.2f}" for end in found.ends or ())
    return [f"{found.mean:.2f}", interval or UNKNOWN]


def _per_task(comparison: Comparison, groups: Groups) -> Html:
    names = task_names(groups)
    charts = [
        _panel(comparison, groups, k, f"Task {k + 1}: {name}") for k, name in enumerate(names)
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
    traces = band_and_line(comparison, group, steps, seeds)
    traces[-1]["mode"] = "lines"
    traces[-1]["hovertemplate"] = (
        f"<b>{plain(group.label)}</b><br>%{{x:,}} steps: %{{y:.2f}}<extra></extra>"
    )
    return traces


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
