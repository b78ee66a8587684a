"""The uncertainty of the nodes, for each group whose runs tell of it: which are certain and which
are free after each task, how fast the network fills up, and when it is full at that pace."""

import math
from collections.abc import Sequence

from uclearn.measures.accuracy import known, mean_course
from uclearn.measures.capacity import (
    FARTHEST,
    FULL,
    PACE_TASKS,
    Forecast,
    Layer,
    certain_share,
    filled_share,
    forecast,
    layers_of,
    outlook_words,
)
from uclearn.report.chart import (
    PERCENT_TICKS,
    Chart,
    Trace,
    captioned,
    color,
    draw,
    panels,
    scale_bar,
    section_of,
    styled_line,
    task_axis,
)
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Html, details, join, paragraph, table, tag
from uclearn.report.sections.histograms import SMALLEST, histograms, layer_name
from uclearn.report.words import UNKNOWN, count, percent, points


def uncertainty(comparison: Comparison) -> Html:
    """Histograms, map and forecast: open for the reference, on request for all others."""
    first = comparison.reference
    ordered = [first, *(group for group in comparison.groups if group is not first)]
    told = [(group, seeds) for group in ordered if (seeds := node_histories(group))]
    if not told:
        return Html()
    (shown, histories), *others = told
    others.sort(key=lambda pair: comparison.number(pair[0]) not in comparison.first_numbers)
    closed = [
        tag(
            "div",
            {"data-group": comparison.number(group)},
            details(f"The same for {group.label}", _one(group, own)),
        )
        for group, own in others[:_MOST_OTHERS]
    ]
    if len(others) > _MOST_OTHERS:
        left = len(others) - _MOST_OTHERS
        closed.append(paragraph(f"Not drawn: {left} more. Make a report of their folders alone."))
    title = f"Certain and free nodes: {shown.label}"
    return section_of(comparison, "uncertainty", title, _one(shown, histories), *closed)


def node_histories(group: Group) -> dict[int, list[Layer]]:
    """By seed the layers with their nodes' uncertainty over the tasks, where it was recorded."""
    found = {seed: layers_of(run.events) for seed, run in zip(group.seeds, group.runs, strict=True)}
    return {seed: layers for seed, layers in found.items() if layers}


def _one(group: Group, seeds: dict[int, list[Layer]]) -> Html:
    histories: Sequence[Sequence[Layer]] = list(seeds.values())
    return join(
        tag("h4", {}, "Uncertainty of the nodes"),
        histograms(group, histories),
        tag("h4", {}, "Capacity map"),
        capacity_map(histories, next(iter(seeds))),
        tag("h4", {}, "How fast the network fills up"),
        filling(group, histories),
    )


_MOST_OTHERS = 11  # groups beside the reference: all nodes of many would make a heavy page
_MOST_ROWS = 200  # nodes of a layer that the map shows
_DEEPEST = 2.0  # powers of two of a node's strength at which its colour is full


def capacity_map(seeds: Sequence[Sequence[Layer]], seed: int) -> Html:
    """A heat map for each layer of the first of `seeds`: a row for each node."""
    charts = [_map_panel(layer, number + 1) for number, layer in enumerate(seeds[0])]
    return captioned(
        f"Each row is a node (seed {seed}), each column a task. Those that became certain first "
        "are on top.",
        scale_bar("capacity", "free: σ 4 times its start", "certain: σ a quarter of it"),
        panels(charts),
    )


def _map_panel(layer: Layer, number: int) -> Chart:
    order = sorted(range(layer.nodes), key=lambda node: _certainty_order(layer, node))
    if len(order) > _MOST_ROWS:
        order = [order[k * len(order) // _MOST_ROWS] for k in range(_MOST_ROWS)]
    tasks = len(layer.sigma)
    courses = [layer.course(node) for node in order]
    trace: Trace = {
        "type": "heatmap",
        "x": list(range(1, tasks + 1)),
        "z": [[_strength(layer, sigma) for sigma in course] for course in courses],
        "zmin": -_DEEPEST,
        "zmax": _DEEPEST,
        "colorscale": [[k / 4, f"@capacity-{k}"] for k in range(5)],
        "showscale": False,
        "customdata": [
            [
                f"node {node}, " + ("not there yet" if sigma is None else f"σ {sigma:.3g}")
                for sigma in course
            ]
            for node, course in zip(order, courses, strict=True)
        ],
        "hovertemplate": "%{customdata} after task %{x}<extra></extra>",
    }
    certain = layer.certain()[-1]
    shown = "" if len(order) == layer.nodes else f"{len(order)} of "
    return Chart(
        data=[trace],
        label=f"Heat map of layer {number}: {certain} of {layer.nodes} nodes are certain after "
        f"the last task, {layer.nodes - certain} are free.",
        layout={
            "xaxis": task_axis(tasks, most=10) | {"showgrid": False, "range": [0.5, tasks + 0.5]},
            "yaxis": {"visible": False, "autorange": "reversed"},
            "margin": {"l": 8, "r": 8, "t": 4, "b": 40},
        },
        height=300,
        title=f"{layer_name(layer, number)}, {shown}{count(layer.nodes, 'node')}",
    )


def _strength(layer: Layer, sigma: float | None) -> float | None:
    """In powers of two; None: the node was not there yet."""
    return None if sigma is None else round(math.log2(layer.sigma_init / max(sigma, SMALLEST)), 2)


def _certainty_order(layer: Layer, node: int) -> tuple[int, float]:
    course = layer.course(node)
    certain = (k for k, v in enumerate(course) if v is not None and layer.is_certain(v))
    return next(certain, len(course)), course[-1] or 0.0


def filling(group: Group, seeds: Sequence[Sequence[Layer]]) -> Html:
    """How the share of certain nodes grew, in each layer and in all, and where it leads."""
    layers = [list(layer) for layer in zip(*seeds, strict=True)]  # [layer][seed]
    whole = mean_certain_share(seeds)
    shares = [mean_certain_share([[one] for one in layer]) for layer in layers]
    filled = mean_filled_share(seeds)
    outlook = forecast(filled)
    rows = [
        _row(layer_name(layer[0], k + 1), layer[0].nodes, share, mean_filled_share(one))
        for k, (layer, share, one) in enumerate(
            zip(layers, shares, ([[each] for each in layer] for layer in layers), strict=True)
        )
    ]
    rows.append(_row("Whole network", sum(layer[0].nodes for layer in layers), whole, filled))
    header = ["", "Nodes", "Certain after task 1", "Certain now", "Points per task", "Full"]
    chart = Chart(
        data=_lines(group, whole, shares, outlook if filled == whole else None),
        label="Line chart of the share of certain nodes after each task. In the whole network "
        f"{percent(whole[0], 0)} after the first and {percent(whole[-1], 0)} after the last. "
        f"{outlook_words(outlook, len(whole))}",
        layout={
            "xaxis": task_axis(
                _horizon(len(whole), outlook if filled == whole else None), "tasks learned"
            ),
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
        captioned(
            "Share of nodes whose σ is below half of its start."
            f"{_DOTTED if filled == whole else ''}",
            draw(chart),
        ),
        paragraph(
            f"{percent(whole[-1], 0)} of all nodes are certain after {len(whole)} tasks. "
            f"{'' if filled == whole else _HELD_OUTPUTS.format(percent(filled[-1], 0))}"
            f"{_outlook_with_seeds(outlook, seeds)}"
        ),
        table("How full each layer is, mean over seeds", header, rows),
    )


_DOTTED = (
    f" Dotted: the whole network at the pace of the last {PACE_TASKS} tasks, up to full "
    f"({percent(FULL, 0)})."
)
_HELD_OUTPUTS = (
    "What they say is held where inputs have pointed so far, and elsewhere they go on learning: "
    "that fills the network to {}. "
)


def _outlook_with_seeds(outlook: Forecast | None, seeds: Sequence[Sequence[Layer]]) -> str:
    tasks = len(seeds[0][0].sigma)
    sentence = outlook_words(outlook, tasks)
    each = [forecast(filled_share(layers)) for layers in seeds]
    ends = sorted(math.ceil(one.full_at) for one in each if one and one.full_at is not None)
    if len(ends) < len(seeds) or ends[0] == ends[-1] or ends[-1] > FARTHEST * tasks:
        return sentence
    return f"{sentence} By seed: task {ends[0]} to {ends[-1]}."


def _row(name: str, nodes: int, share: Sequence[float], filled: Sequence[float]) -> list[str]:
    outlook, tasks = forecast(filled), len(share)
    if outlook is None:
        full = UNKNOWN
    elif outlook.full_at is None:
        full = "not in sight"
    elif outlook.full_at > FARTHEST * tasks:
        full = f"after task {FARTHEST * tasks}"
    else:
        since = "since" if outlook.full_at <= tasks else "about"
        full = f"{since} task {math.ceil(outlook.full_at)}"
    pace = forecast(share)
    growth = points(pace.growth) if pace else UNKNOWN
    return [name, f"{nodes}", percent(share[0], 0), percent(share[-1], 0), growth, full]


def _lines(
    group: Group,
    whole: Sequence[float],
    shares: Sequence[Sequence[float]],
    outlook: Forecast | None,
) -> list[Trace]:
    x = list(range(1, len(whole) + 1))
    traces: list[Trace] = []
    for k, share in enumerate(shares):
        name = f"layer {k + 1}"
        own = styled_line(1 + k % 6, name, x, share, width=1.5, size=6)
        own["hovertemplate"] = f"{name} after task %{{x}}: %{{y:.0%}}<extra></extra>"
        traces.append(own)
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


def mean_certain_share(seeds: Sequence[Sequence[Layer]]) -> list[float]:
    """After each task the share of nodes that are certain, mean over `seeds`."""
    return known(mean_course([certain_share(layers) for layers in seeds]))


def mean_filled_share(seeds: Sequence[Sequence[Layer]]) -> list[float]:
    """After each task how full the network is, mean over `seeds`."""
    return known(mean_course([filled_share(layers) for layers in seeds]))
