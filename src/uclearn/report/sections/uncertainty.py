"""The uncertainty of the nodes, for each group whose runs tell of it: which are certain and which
are free after each task."""

import math
from collections.abc import Sequence

from uclearn.measures.capacity import Layer, layers_of
from uclearn.report.chart import Chart, Trace, panels, scale_bar, slug, task_axis
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, details, join, section, tag
from uclearn.report.sections.filling import filling
from uclearn.report.sections.histograms import SMALLEST, histograms, layer_name
from uclearn.report.words import count


def uncertainty(study: Study) -> Html:
    """Histograms, map and forecast: open for the reference, on request for all others."""
    first = study.reference
    ordered = [first, *(group for group in study.groups if group is not first)]
    told = [(group, seeds) for group in ordered if (seeds := node_histories(group))]
    if not told:
        return Html()
    parts = [_one(*told[0])]
    parts += [
        details(f"The same for {group.label}", _one(group, seeds)) for group, seeds in told[1:]
    ]
    return section(
        f"{slug(study)}-uncertainty",
        3,
        f"Certain and free nodes: {told[0][0].label}",
        *parts,
        note=study.mark,
    )


def node_histories(group: Group) -> dict[int, list[Layer]]:
    """By seed the layers with their nodes' uncertainty over the tasks, where it was recorded."""
    found = {seed: layers_of(run.events) for seed, run in zip(group.seeds, group.runs, strict=True)}
    return {seed: layers for seed, layers in found.items() if layers}


def _one(group: Group, seeds: dict[int, list[Layer]]) -> Html:
    histories: Sequence[Sequence[Layer]] = list(seeds.values())
    return join(
        [
            tag("h4", {}, "Uncertainty of the nodes"),
            histograms(group, histories),
            tag("h4", {}, "Capacity map"),
            capacity_map(histories, next(iter(seeds))),
            tag("h4", {}, "How fast the network fills up"),
            filling(group, histories),
        ]
    )


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
