"""How fast a network fills up with certain nodes, and when it is full at that pace."""

import math
from collections.abc import Sequence

from uclearn.measures.accuracy import mean_course
from uclearn.measures.capacity import (
    FARTHEST,
    FULL,
    PACE_TASKS,
    Forecast,
    Layer,
    certain_share,
    forecast,
    outlook_words,
)
from uclearn.report.chart import PERCENT_TICKS, Chart, Trace, color, draw, symbol, task_axis
from uclearn.report.groups import Group
from uclearn.report.html import Html, join, paragraph, table, tag
from uclearn.report.sections.histograms import layer_name
from uclearn.report.words import UNKNOWN, percent, points


def filling(group: Group, seeds: Sequence[Sequence[Layer]]) -> Html:
    """How the share of certain nodes grew, in each layer and in all, and where it leads."""
    layers = [list(layer) for layer in zip(*seeds, strict=True)]  # [layer][seed]
    whole = _mean([certain_share(one) for one in seeds])
    shares = [_mean([certain_share([one]) for one in layer]) for layer in layers]
    outlook = forecast(whole)
    rows = [
        _row(layer_name(layer[0], k + 1), layer[0].nodes, share)
        for k, (layer, share) in enumerate(zip(layers, shares, strict=True))
    ]
    total = sum(layer[0].nodes for layer in layers)
    header = ["", "Nodes", "Certain after task 1", "Certain now", "Points per task", "Full"]
    chart = Chart(
        data=_lines(group, whole, shares, outlook),
        label="Line chart of the share of certain nodes after each task. In the whole network "
        f"{percent(whole[0], 0)} after the first and {percent(whole[-1], 0)} after the last. "
        f"{outlook_words(outlook, len(whole))}",
        layout={
            "xaxis": task_axis(_horizon(len(whole), outlook), "tasks learned"),
            "yaxis": {
                "tickformat": PERCENT_TICKS,
                "range": [-0.03, 1.04],
                "title": {"text": "certain nodes"},
            },
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "margin": {"t": 40},
        },
        height=360,
    )
    return join(
        [
            tag(
                "figure",
                {},
                draw(chart),
                tag(
                    "figcaption",
                    {},
                    "Share of nodes whose σ is below half of its start. Dotted: the whole network "
                    f"at the pace of the last {PACE_TASKS} tasks, up to full "
                    f"({percent(FULL, 0)}).",
                ),
            ),
            paragraph(
                f"{percent(whole[-1], 0)} of all nodes are certain after "
                f"{len(whole)} tasks. {_outlook_with_seeds(outlook, seeds)}"
            ),
            table(
                "How full each layer is, mean over seeds",
                header,
                [*rows, _row("Whole network", total, whole)],
            ),
        ]
    )


def _outlook_with_seeds(outlook: Forecast | None, seeds: Sequence[Sequence[Layer]]) -> str:
    tasks = len(seeds[0][0].sigma)
    sentence = outlook_words(outlook, tasks)
    each = [forecast(certain_share(layers)) for layers in seeds]
    ends = sorted(math.ceil(one.full_at) for one in each if one and one.full_at is not None)
    if len(ends) < len(seeds) or ends[0] == ends[-1] or ends[-1] > FARTHEST * tasks:
        return sentence
    return f"{sentence} By seed: task {ends[0]} to {ends[-1]}."


def _row(name: str, nodes: int, share: Sequence[float]) -> list[str]:
    outlook = forecast(share)
    growth = UNKNOWN if outlook is None else points(outlook.growth)
    full = _full_words(outlook, len(share))
    return [name, f"{nodes}", percent(share[0], 0), percent(share[-1], 0), growth, full]


def _full_words(outlook: Forecast | None, tasks: int) -> str:
    if outlook is None:
        return UNKNOWN
    if outlook.full_at is None:
        return "not in sight"
    if outlook.full_at > FARTHEST * tasks:
        return f"after task {FARTHEST * tasks}"
    since = "since" if outlook.full_at <= tasks else "about"
    return f"{since} task {math.ceil(outlook.full_at)}"


def _lines(
    group: Group,
    whole: Sequence[float],
    shares: Sequence[Sequence[float]],
    outlook: Forecast | None,
) -> list[Trace]:
    x = list(range(1, len(whole) + 1))
    traces: list[Trace] = []
    for k, share in enumerate(shares):
        style = 1 + k % 6
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"layer {k + 1}",
                "x": x,
                "y": list(share),
                "line": {"color": color(style), "width": 1.5},
                "marker": {"color": color(style), "symbol": symbol(style), "size": 6},
                "hovertemplate": f"layer {k + 1} after task %{{x}}: %{{y:.0%}}<extra></extra>",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "whole network",
            "x": x,
            "y": list(whole),
            "line": {"color": color(group.style), "width": 4},
            "marker": {"color": color(group.style), "size": 8},
            "hovertemplate": "whole network after task %{x}: %{y:.0%}<extra></extra>",
        }
    )
    end = _horizon(len(whole), outlook)
    if outlook is not None and outlook.growth > 0 and end > len(whole):
        reach = min(float(end), outlook.full_at or end)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "forecast",
                "x": [len(whole), reach],
                "y": [whole[-1], whole[-1] + outlook.growth * (reach - len(whole))],
                "line": {"color": color(group.style), "width": 3, "dash": "dot"},
                "hovertemplate": "forecast for task %{x:.1f}: %{y:.0%}<extra></extra>",
            }
        )
    return traces


def _horizon(tasks: int, outlook: Forecast | None) -> int:
    """Up to which task the chart goes: to the forecast, unless that is too far away."""
    if outlook is None or outlook.full_at is None:
        return tasks
    return max(tasks, min(math.ceil(outlook.full_at), FARTHEST * tasks))


def _mean(seeds: Sequence[Sequence[float]]) -> list[float]:
    return [value for value in mean_course(seeds) if value is not None]
