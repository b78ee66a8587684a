"""The accuracy matrix of each group as a heat map."""

from collections.abc import Sequence

from uclearn.measures.accuracy import Number, extent, learned_part, mean_matrix
from uclearn.report.chart import Chart, Trace, panels, task_axis
from uclearn.report.figure import figure, scale_bar
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, join, table
from uclearn.report.labels import in_sentence
from uclearn.report.words import percent

_MOST_WITH_NUMBERS = 10  # tasks up to which a number fits into a cell


def matrix_figure(study: Study) -> Html:
    """All groups on one scale of colours, so that they can be compared."""
    groups = study.groups
    matrices = [mean_matrix([learned_part(m) for m in group.matrices]) for group in groups]
    floor = int(10 * extent(matrices)[0]) / 10
    pairs = list(zip(groups, matrices, strict=True))
    return figure(
        study,
        "matrix",
        "Accuracy matrices",
        join(
            [
                scale_bar("accuracy", percent(floor, 0), percent(1, 0)),
                panels([_panel(group, matrix, floor) for group, matrix in pairs]),
            ]
        ),
        "Row: tasks learned. Column: the task it is tried on. Mean over seeds; tasks not yet "
        "learned are left blank. A column that fades downwards is a task being forgotten.",
        numbers=join([_numbers(group, matrix) for group, matrix in pairs]),
    )


def _numbers(group: Group, matrix: Sequence[Sequence[Number]]) -> Html:
    return table(
        f"{group.label}: accuracy on each task after each task, mean over seeds",
        ["After task", *(f"on {j + 1}" for j in range(len(matrix)))],
        [[f"{i + 1}", *map(percent, row)] for i, row in enumerate(matrix)],
    )


def _panel(group: Group, matrix: Sequence[Sequence[Number]], floor: float) -> Chart:
    tasks = list(range(1, len(matrix) + 1))
    has_numbers = len(matrix) <= _MOST_WITH_NUMBERS
    trace: Trace = {
        "type": "heatmap",
        "x": tasks,
        "y": tasks,
        "z": matrix,
        "zmin": floor,
        "zmax": 1,
        "colorscale": [[k / 4, f"@accuracy-{k}"] for k in range(5)],
        "showscale": False,
        "xgap": 1 if has_numbers else 0,
        "ygap": 1 if has_numbers else 0,
        "hoverongaps": False,
        "hovertemplate": "on task %{x}, after task %{y}: <b>%{z:.1%}</b><extra></extra>",
    }
    if has_numbers:
        trace["text"] = [["" if v is None else f"{100 * v:.0f}" for v in row] for row in matrix]
        trace |= {"texttemplate": "%{text}", "textfont": {"size": 10}}
    last = ", ".join(map(percent, matrix[-1]))
    return Chart(
        data=[trace],
        label=f"Heat map of the accuracy matrix of {in_sentence(group.label)}. After the last "
        f"task, on tasks 1 to {len(matrix)}: {last}.",
        layout={
            "xaxis": task_axis(len(matrix), "on task", 10) | {"showgrid": False},
            "yaxis": task_axis(len(matrix), "after task", 10)
            | {"range": [len(matrix) + 0.5, 0.5], "showgrid": False},
            "margin": {"l": 44, "r": 8, "t": 4, "b": 40},
        },
        height=300,
        title=group.label,
    )
