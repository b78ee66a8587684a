"""What was forgotten: the accuracy matrix of each group as a heat map, and forgetting against
learning accuracy, which shows what was traded for what."""

from collections.abc import Sequence

from uclearn.measures.accuracy import Number, extent, learned_part, mean, mean_matrix
from uclearn.report.chart import (
    PERCENT_TICKS,
    Chart,
    Trace,
    color,
    draw,
    figure,
    in_words,
    panels,
    plain,
    scale_bar,
    shape,
    task_axis,
)
from uclearn.report.groups import MOST_AT_FIRST, Comparison, Group
from uclearn.report.html import Html, details, join, table, tag
from uclearn.report.labels import in_sentence
from uclearn.report.words import count, percent

_MOST_WITH_NUMBERS = 10  # tasks up to which a number fits into a cell


def matrix_figure(comparison: Comparison) -> Html:
    """All groups on one scale of colours, so that they can be compared."""
    groups = comparison.groups
    matrices = [mean_matrix([learned_part(m) for m in group.matrices]) for group in groups]
    floor = int(10 * extent(matrices)[0]) / 10
    pairs = list(zip(groups, matrices, strict=True))
    many = len(groups) > MOST_AT_FIRST  # numbers of all would make a heavy page
    header = ["After task", *(f"on {j + 1}" for j in range(comparison.tasks))]
    numbers = [
        tag(
            "div",
            {"data-group": comparison.number(group)},
            table(
                f"{group.label}: accuracy on each task after each task, mean over seeds",
                header,
                [[f"{i + 1}", *map(percent, row)] for i, row in enumerate(matrix)],
            ),
        )
        for group, matrix in pairs
        if not many or comparison.number(group) in comparison.first_numbers
    ]
    maps = join(
        scale_bar("accuracy", percent(floor, 0), percent(1, 0)),
        panels([_panel(comparison.number(g), g, matrix, floor) for g, matrix in pairs]),
    )
    return figure(
        comparison,
        "matrix",
        "Accuracy matrices",
        details("The matrices of those that are shown", maps) if many else maps,
        "Row: tasks learned. Column: the task it is tried on. Mean over seeds; tasks not yet "
        "learned are left blank. A column that fades downwards is a task being forgotten.",
        numbers=join(*numbers),
    )


def _panel(key: int, group: Group, matrix: Sequence[Sequence[Number]], floor: float) -> Chart:
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
        key=key,
    )


def plane_figure(comparison: Comparison) -> Html:
    """Each group a point, each of its seeds a small one; nothing for a single task."""
    groups = [g for g in comparison.compared if g.forgettings and g.learning_accuracies]
    if not groups or comparison.tasks < 2:
        return Html()
    header = ["Method", "Learning accuracy", "Forgetting"]
    rows = [
        [g.label, *(percent(mean(own.values())) for own in (g.learning_accuracies, g.forgettings))]
        for g in groups
    ]
    words = [f"{in_sentence(name)} learns {learn} and forgets {lose}" for name, learn, lose in rows]
    chart = Chart(
        data=[trace for g in groups for trace in _points(comparison, g)],
        label=f"Scatter chart of forgetting against learning accuracy: {in_words(words)}.",
        layout={
            "xaxis": {"title": {"text": "learning accuracy"}, "tickformat": PERCENT_TICKS},
            "yaxis": {
                "title": {"text": "forgetting (less is up)"},
                "tickformat": PERCENT_TICKS,
                "autorange": "reversed",
            },
        },
        height=380,
        labels=True,
    )
    return figure(
        comparison,
        "plane",
        "Learning and forgetting",
        draw(chart),
        "Learning accuracy: how well each task was known right after it was learned. Forgetting: "
        "how far the earlier tasks fell from their best. Best is the upper right corner. "
        f"{'Large: mean over seeds; small: each seed.' if comparison.has_bands else 'One seed.'}",
        groups=groups,
        numbers=table(
            "Learning accuracy and forgetting, means over seeds",
            header,
            rows,
            keys=[comparison.number(group) for group in groups],
        ),
    )


def _points(comparison: Comparison, group: Group) -> list[Trace]:
    seeds = [seed for seed in group.forgettings if seed in group.learning_accuracies]
    marker = {"color": color(group.style), "symbol": shape(group.style)[0]}
    name = f"<b>{plain(group.label)}</b>"
    values = "learns %{x:.1%}<br>forgets %{y:.1%}<extra></extra>"
    common: Trace = {
        "type": "scatter",
        "meta": comparison.number(group),
        "name": plain(group.label),
    }
    each = common | {
        "mode": "markers",
        "x": [group.learning_accuracies[seed] for seed in seeds],
        "y": [group.forgettings[seed] for seed in seeds],
        "text": [f"seed {seed}" for seed in seeds],
        "marker": marker | {"size": 7, "opacity": 0.45},
        "hovertemplate": f"{name}, %{{text}}<br>{values}",
        "showlegend": False,
    }
    centre = common | {
        "mode": "markers",
        "x": [mean(each["x"])],
        "y": [mean(each["y"])],
        "cliponaxis": False,
        "ids": [plain(group.label)],
        "marker": marker | {"size": 14},
        "hovertemplate": f"{name}, mean of {count(len(seeds), 'seed')}<br>{values}",
    }
    return [each, centre] if len(seeds) > 1 else [centre]
