"""How each task fares while later ones are learned: the paper's Figure 6."""

from collections.abc import Sequence

from uclearn.measures.accuracy import (
    Number,
    average_course,
    course,
    extent,
    learned_part,
    mean_course,
)
from uclearn.report.chart import Chart, accuracy_axis, line, panels, plain, task_axis
from uclearn.report.figure import figure
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html
from uclearn.report.labels import in_sentence
from uclearn.report.words import listing, percent

MOST_PANELS = 11
"""Tasks that get a panel of their own; of more, so many evenly spaced ones do."""


def tasks_figure(study: Study) -> Html:
    """A panel for each task."""
    shown = shown_tasks(study.tasks)
    note = "" if len(shown) == study.tasks else f" {len(shown)} of {study.tasks} tasks are shown."
    return figure(
        study,
        "tasks",
        "Task by task",
        panels(task_panels(study, study.compared, shown)),
        "How the accuracy on each task fares while later tasks are learned, mean over seeds: a "
        f"line that falls is forgetting. As Figure 6 of the paper.{note} The numbers are in the "
        "tables of the accuracy matrices.",
        groups=study.compared,
    )


def task_panels(study: Study, groups: Sequence[Group], tasks: Sequence[int]) -> list[Chart]:
    """For each of `tasks` the accuracy on it after each of the tasks from it on."""
    ends = extent([learned_part(matrix) for group in groups for matrix in group.matrices])
    each = [_panel(study, groups, task, ends) for task in tasks]
    return [*each, _average_panel(study, groups, ends)]


def shown_tasks(tasks: int) -> list[int]:
    """Which tasks get a panel: all, or `MOST_PANELS` from the first to the last.

    >>> shown_tasks(3), shown_tasks(50)
    ([0, 1, 2], [0, 5, 10, 15, 20, 24, 29, 34, 39, 44, 49])
    """
    if tasks <= MOST_PANELS:
        return list(range(tasks))
    return [round(k * (tasks - 1) / (MOST_PANELS - 1)) for k in range(MOST_PANELS)]


def _panel(study: Study, groups: Sequence[Group], task: int, ends: tuple[float, float]) -> Chart:
    courses = [[course(matrix, task) for matrix in group.matrices] for group in groups]
    return _lines(study, groups, courses, ends, f"Task {task + 1}", f"on task {task + 1}")


def _average_panel(study: Study, groups: Sequence[Group], ends: tuple[float, float]) -> Chart:
    courses = [[average_course(matrix) for matrix in group.matrices] for group in groups]
    return _lines(study, groups, courses, ends, "Average so far", "on average")


def _lines(
    study: Study,
    groups: Sequence[Group],
    courses: Sequence[Sequence[Sequence[Number]]],
    ends: tuple[float, float],
    title: str,
    where: str,
) -> Chart:
    """A line for each group through the mean of its `courses`, one per seed."""
    x = list(range(1, study.tasks + 1))
    traces, finals = [], []
    for group, seeds in zip(groups, courses, strict=True):
        values = mean_course(seeds)
        trace = line(group, study.groups.index(group), x, values)
        trace["marker"]["size"] = 5
        trace["hovertemplate"] = (
            f"<b>{plain(group.label)}</b><br>{where}, after task %{{x}}: %{{y:.1%}}<extra></extra>"
        )
        traces.append(trace)
        finals.append(f"{in_sentence(group.label)} {percent(values[-1])}")
    return Chart(
        data=traces,
        label=f"Line chart: accuracy {where}. After the last task: {listing(finals)}.",
        layout={
            "xaxis": task_axis(study.tasks, "", 10),
            "yaxis": accuracy_axis(*ends) | {"nticks": 6},
            "margin": {"l": 44, "r": 8, "t": 4, "b": 24},
        },
        height=190,
        title=title,
    )
