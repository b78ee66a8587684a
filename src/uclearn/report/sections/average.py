"""Average accuracy over tasks, with the spread of the seeds: the paper's Figures 3 and 7."""

from collections.abc import Sequence

from uclearn.measures.accuracy import Number, average_course, extent, known, mean_course
from uclearn.measures.statistics import estimate
from uclearn.report.chart import Chart, Trace, accuracy_axis, band, draw, line, plain, task_axis
from uclearn.report.figure import figure
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, table
from uclearn.report.labels import in_sentence
from uclearn.report.words import count, listing, percent


def average_figure(study: Study) -> Html:
    """After each task, the mean over the tasks learned so far."""
    groups = study.compared
    courses = [[average_course(matrix) for matrix in group.matrices] for group in groups]
    pairs = list(zip(groups, courses, strict=True))
    header = ["Method", *(f"{i + 1}" for i in range(study.tasks))]
    rows = [[group.label, *map(percent, mean_course(seeds))] for group, seeds in pairs]
    ends = [f"{in_sentence(name)} {end}" for name, *_, end in rows]
    chart = Chart(
        data=[trace for pair in pairs for trace in _band_and_line(study, *pair)],
        label=f"Line chart of the average accuracy after each of {count(study.tasks, 'task')}. "
        f"At the end: {listing(ends)}.",
        layout={
            "xaxis": task_axis(study.tasks),
            "yaxis": accuracy_axis(*extent(courses), title="average accuracy so far"),
            "hovermode": "x unified",
        },
        height=400,
    )
    return figure(
        study,
        "average",
        "Average accuracy over tasks",
        draw(chart),
        "After each task, the mean of the accuracies on all tasks learned so far. Line: mean over "
        "seeds. Band: from the lowest seed to the highest. As Figures 3 and 7 of the paper.",
        groups=groups,
        numbers=table("Average accuracy after each task, mean over seeds", header, rows),
        saves=True,
    )


def _band_and_line(study: Study, group: Group, seeds: Sequence[Sequence[Number]]) -> list[Trace]:
    number = study.groups.index(group)
    x = list(range(1, study.tasks + 1))
    trace = line(group, number, x, mean_course(seeds))
    trace["text"] = [_hover(values) for values in zip(*seeds, strict=True)]
    trace["hovertemplate"] = f"{plain(group.label)}: %{{text}}<extra></extra>"
    return [*band(group, number, x, seeds), trace]


def _hover(values: Sequence[Number]) -> str:
    measured = known(values)
    found = estimate(measured)
    if found is None:
        return "not measured"
    if found.low is None:
        return f"<b>{percent(found.mean)}</b> (one seed)"
    spread = f"{percent(min(measured))} to {percent(max(measured))}"
    return f"<b>{percent(found.mean)}</b> ({spread}, {count(found.count, 'seed')})"
