"""Accuracy over tasks as lines: on average (the paper's Figures 3 and 7), task by task (Figure 6),
and for UCL without each of its terms (Figure 5)."""

from collections.abc import Callable, Sequence
from functools import partial

from uclearn.measures.accuracy import (
    Number,
    Table,
    average_course,
    course,
    known,
    mean_course,
)
from uclearn.report.chart import (
    BAND,
    Chart,
    Fit,
    Readout,
    Trace,
    accuracy_axis,
    band_and_line,
    draw,
    figure,
    in_words,
    mean_line,
    panels,
    task_axis,
)
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Html, join, table
from uclearn.report.labels import in_sentence
from uclearn.report.legend import legend
from uclearn.report.settings import whole_ucl
from uclearn.report.words import HALF_WIDTH, UNKNOWN, count, difference, half_width, percent

MOST_PANELS = 11
"""Tasks that get a panel of their own; of more, so many evenly spaced ones do."""


def average_figure(comparison: Comparison) -> Html:
    """After each task, the mean over the tasks learned so far."""
    groups = comparison.compared
    courses = [[average_course(matrix) for matrix in group.matrices] for group in groups]
    pairs = list(zip(groups, courses, strict=True))
    header = ["Method", *(f"{i + 1}" for i in range(comparison.tasks))]
    rows = [[group.label, *map(percent, mean_course(seeds))] for group, seeds in pairs]
    ends = [f"{in_sentence(name)} {end}" for name, *_, end in rows]
    traces: list[Trace] = []
    for group, seeds in pairs:
        more = {"text": [_seeds_words(values) for values in zip(*seeds, strict=True)]}
        traces += band_and_line(comparison, group, range(1, comparison.tasks + 1), seeds, more)
    chart = Chart(
        data=traces,
        label="Line chart of the average accuracy after each of "
        f"{count(comparison.tasks, 'task')}. At the end: {in_words(ends)}.",
        layout={
            "xaxis": task_axis(comparison.tasks),
            "yaxis": accuracy_axis("average accuracy so far"),
        },
        height=400,
        fit=Fit(percent=True),
        readout=Readout("after task "),
    )
    return figure(
        comparison,
        "average",
        "Average accuracy over tasks",
        draw(chart),
        "After each task, the mean of the accuracies on all tasks learned so far. Line: mean over "
        f"seeds.{BAND if comparison.has_bands else ''} As Figures 3 and 7 of the paper.",
        groups=groups,
        numbers=table(
            "Average accuracy after each task, mean over seeds",
            header,
            rows,
            keys=[comparison.number(group) for group in groups],
        ),
    )


def _seeds_words(values: Sequence[Number]) -> str:
    """How far the seeds lie apart; empty for one."""
    measured = known(values)
    if len(measured) < 2:
        return "one seed"
    return f"{percent(min(measured))} to {percent(max(measured))}, {count(len(measured), 'seed')}"


def tasks_figure(comparison: Comparison) -> Html:
    """A panel for each task."""
    shown = len(shown_tasks(comparison.tasks))
    left_out = shown < comparison.tasks
    note = f" {shown} of {comparison.tasks} tasks are shown." if left_out else ""
    return figure(
        comparison,
        "tasks",
        "Task by task",
        task_panels(comparison, comparison.compared),
        "How the accuracy on each task fares while later tasks are learned, mean over seeds: a "
        f"line that falls is forgetting. As Figure 6 of the paper.{note} The numbers are in the "
        "tables of the accuracy matrices.",
        groups=comparison.compared,
    )


def shown_tasks(tasks: int) -> list[int]:
    """Which tasks get a panel: all, or `MOST_PANELS` from the first to the last.

    >>> shown_tasks(3), shown_tasks(50)
    ([0, 1, 2], [0, 5, 10, 15, 20, 24, 29, 34, 39, 44, 49])
    """
    if tasks <= MOST_PANELS:
        return list(range(tasks))
    return [round(k * (tasks - 1) / (MOST_PANELS - 1)) for k in range(MOST_PANELS)]


def task_panels(comparison: Comparison, groups: Sequence[Group]) -> Html:
    """The accuracy on each task from its turn on, and on average; of many tasks, some."""
    charts = [
        _panel(comparison, groups, partial(course, task=k), f"Task {k + 1}", f"on task {k + 1}")
        for k in shown_tasks(comparison.tasks)
    ]
    average = _panel(comparison, groups, average_course, "Average so far", "on average")
    return panels([*charts, average])


def _panel(
    comparison: Comparison,
    groups: Sequence[Group],
    read: Callable[[Table], list[Number]],
    title: str,
    where: str,
) -> Chart:
    """A line for each group through the mean of what `read` finds in its matrices."""
    traces, finals = [], []
    for group in groups:
        seeds = [read(matrix) for matrix in group.matrices]
        trace = mean_line(comparison, group, range(1, comparison.tasks + 1), seeds, size=5)
        traces.append(trace)
        finals.append(f"{in_sentence(group.label)} {percent(trace['y'][-1])}")
    return Chart(
        data=traces,
        label=f"Line chart: accuracy {where}. After the last task: {in_words(finals)}.",
        layout={
            "xaxis": task_axis(comparison.tasks, "", 10),
            "yaxis": accuracy_axis() | {"nticks": 6},
            "margin": {"l": 44, "r": 8, "t": 4, "b": 24},
        },
        height=190,
        title=title,
        fit=Fit(percent=True, together=True),
        readout=Readout(f"{where}, after task "),
    )


def ablations_figure(comparison: Comparison) -> Html:
    """Each ablation beside UCL with the same settings; nothing if none was run."""
    families = ablation_families(comparison)
    return join(*(_figure(comparison, k, family) for k, family in enumerate(families)))


def ablation_families(comparison: Comparison) -> list[list[Group]]:
    """Groups that differ in nothing but UCL's switches, the whole UCL (if it was run) first."""
    families: dict[str, list[Group]] = {}
    for group in comparison.groups:
        families.setdefault(whole_ucl(group.config), []).append(group)
    return [
        sorted(family, key=lambda group: group.is_ablation)
        for family in families.values()
        if any(group.is_ablation for group in family)
    ]


def _figure(comparison: Comparison, number: int, family: list[Group]) -> Html:
    complete = None if family[0].is_ablation else family[0]
    rows = [
        [
            group.label,
            percent(group.accuracy.mean if group.accuracy else None),
            half_width(group.accuracy),
            f"{len(group.runs)}",
            UNKNOWN
            if complete is None or group is complete
            else difference(group.against(complete)),
        ]
        for group in family
    ]
    header = ["Method", "Accuracy", HALF_WIDTH, "Seeds", "Points against UCL (paired)"]
    return figure(
        comparison,
        "ablations" if number == 0 else f"ablations-{number + 1}",
        "Ablations: what each term of UCL does",
        join(
            legend(comparison, family),
            task_panels(comparison, family),
            table("UCL without each of its terms", header, rows),
        ),
        "The accuracy on each task while later ones are learned, mean over seeds, for UCL and UCL "
        "without: the hold on the weights that leave a certain node (upper freeze), the freeze of "
        "important weights (eq. 5), the inflation of σ that lets old certainty go (eq. 6). As "
        "Figure 5 of the paper.",
    )
