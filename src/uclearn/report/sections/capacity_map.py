"""Which nodes are certain and which are free, after each task."""

import math
from collections.abc import Sequence

from uclearn.measures.capacity import Layer
from uclearn.report.chart import Chart, Trace, panels, task_axis
from uclearn.report.figure import scale_bar
from uclearn.report.html import Html, tag
from uclearn.report.sections.histograms import SMALLEST, layer_name
from uclearn.report.words import count

_MOST_ROWS = 200  # nodes of a layer that the map shows
_DEEPEST = 2.0  # powers of two of a node's strength at which its colour is full


def capacity_map(seeds: Sequence[Sequence[Layer]], seed: int) -> Html:
    """A heat map for each layer of the first of `seeds`: a row for each node."""
    charts = [_map_panel(layer, number + 1) for number, layer in enumerate(seeds[0])]
    return tag(
        "figure",
        {},
        scale_bar("capacity", "free: σ 4 times its start", "certain: σ a quarter of it"),
        panels(charts),
        tag(
            "figcaption",
            {},
            f"Each row is a node (seed {seed}), each column a task. Those that became certain "
            "first are on top.",
        ),
    )


def _map_panel(layer: Layer, number: int) -> Chart:
    order = sorted(range(layer.nodes), key=lambda node: _certainty_order(layer, node))
    if len(order) > _MOST_ROWS:
        order = [order[k * len(order) // _MOST_ROWS] for k in range(_MOST_ROWS)]
    tasks = len(layer.sigma)
    strengths = [
        [math.log2(layer.sigma_init / max(layer.sigma[i][node], SMALLEST)) for i in range(tasks)]
        for node in order
    ]
    trace: Trace = {
        "type": "heatmap",
        "x": list(range(1, tasks + 1)),
        "z": [[round(value, 2) for value in row] for row in strengths],
        "zmin": -_DEEPEST,
        "zmax": _DEEPEST,
        "colorscale": [[k / 4, f"@capacity-{k}"] for k in range(5)],
        "showscale": False,
        "customdata": [
            [f"node {node}, σ {layer.sigma[i][node]:.3g}" for i in range(tasks)] for node in order
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


def _certainty_order(layer: Layer, node: int) -> tuple[int, float]:
    course = [sigma[node] for sigma in layer.sigma]
    first = next((i for i, value in enumerate(course) if layer.is_certain(value)), len(course))
    return first, course[-1]
