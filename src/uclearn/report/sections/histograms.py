"""The standard deviations of the nodes, layer by layer and task by task: the paper's Figure 4."""

import math
from collections.abc import Sequence

from uclearn.measures.capacity import CERTAIN, Layer
from uclearn.report.chart import Chart, Trace, captioned, color, panels
from uclearn.report.groups import Group
from uclearn.report.html import Html
from uclearn.report.sections.accuracy import shown_tasks
from uclearn.report.words import count, percent

SMALLEST = 1e-5
"""Standard deviations are rounded in the records; what became 0 by that is drawn as this."""
_BINS = 28
_OVERLAP = 1.7  # how many rows a highest bar reaches up


def histograms(group: Group, seeds: Sequence[Sequence[Layer]]) -> Html:
    """A panel for each layer, in it a histogram for each task; `seeds` are the layers of each."""
    pooled = [_pool(layers) for layers in zip(*seeds, strict=True)]
    return captioned(
        "How many nodes have which standard deviation σ after each task, over "
        f"{count(len(seeds), 'seed')}. Dotted: the σ that all nodes of the layer began with. "
        "Dashed: half of it; to its left nodes are certain. As Figure 4 of the paper, with all "
        "nodes.",
        panels([_panel(group, layer, number + 1) for number, layer in enumerate(pooled)]),
    )


def histogram(values: Sequence[float], low: float, high: float, bins: int = _BINS) -> list[float]:
    """The share of `values` in each of `bins` bins, equally wide on a logarithmic axis.

    >>> histogram([1, 10, 90], low=1, high=100, bins=2)
    [0.3333333333333333, 0.6666666666666666]
    """
    width = math.log(high / low) / bins
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int(math.log(value / low) / width)))] += 1
    return [entry / len(values) for entry in counts]


def _pool(layers: Sequence[Layer]) -> Layer:
    """The nodes of several seeds as those of one."""
    tasks = min(len(layer.sigma) for layer in layers)
    sigma = [[value for layer in layers for value in layer.sigma[i]] for i in range(tasks)]
    return Layer(layers[0].name, layers[0].sigma_init, sigma)


def _panel(group: Group, layer: Layer, number: int) -> Chart:
    rows = shown_tasks(len(layer.sigma))
    values = [[max(value, SMALLEST) for value in layer.sigma[task]] for task in rows]
    limit = CERTAIN * layer.sigma_init
    ends = [*(value for row in values for value in row), layer.sigma_init, limit]
    low, high = min(ends) / 1.1, max(ends) * 1.1
    shares = [histogram(row, low, high) for row in values]
    highest = max(max(row) for row in shares)
    edges = [low * (high / low) ** (k / _BINS) for k in range(_BINS + 1)]
    traces: list[Trace] = []
    for position, (task, row) in enumerate(zip(rows, shares, strict=True)):
        base = float(len(rows) - position)
        traces += _ridge(group, edges, row, base, _OVERLAP / highest, task + 1)
    top = len(rows) + _OVERLAP
    traces.append(_upright(layer.sigma_init, top, "dot", "σ at the start"))
    traces.append(_upright(limit, top, "dash", "certain below σ"))
    certain = layer.certain()[-1] / layer.nodes
    return Chart(
        data=traces,
        label=f"Histograms of the standard deviations in layer {number} after each task. After "
        f"the last, {percent(certain, 0)} lie below half of the initial {layer.sigma_init:.3g}.",
        layout={
            "xaxis": {
                "type": "log",
                "title": {"text": "σ of a node"},
                "tickvals": (ticks := round_numbers(low, high)),
                "ticktext": [f"{tick:g}" for tick in ticks],
                "range": [math.log10(low), math.log10(high)],
            },
            "yaxis": {
                "tickvals": list(range(len(rows), 0, -1)),
                "ticktext": [f"task {task + 1}" for task in rows],
                "showgrid": False,
                "range": [0.9, top + 0.1],
            },
            "margin": {"l": 56, "r": 8, "t": 4, "b": 40},
        },
        height=max(240, 26 * len(rows) + 90),
        title=layer_name(layer, number),
    )


def layer_name(layer: Layer, number: int) -> str:
    """By number, as in the paper, and by what the network calls it.

    >>> layer_name(Layer("conv1", 0.1, [[0.1, 0.2]]), 1)
    'Layer 1 (conv1)'
    """
    return f"Layer {number} ({layer.name})"


def round_numbers(low: float, high: float) -> list[float]:
    """Where a logarithmic axis from `low` to `high` is labelled.

    >>> round_numbers(0.004, 0.3)
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 200 else (1,)
    numbers = [float(f"{step}e{power}") for power in powers for step in steps]
    return [number for number in numbers if low <= number <= high]


def _upright(x: float, top: float, dash: str, name: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x, x],
        "y": [0.9, top],
        "line": {"color": "@muted", "width": 1.5, "dash": dash},
        "hovertemplate": f"{name}: {x:.3g}<extra></extra>",
    }


def _ridge(
    group: Group, edges: Sequence[float], row: Sequence[float], base: float, unit: float, task: int
) -> list[Trace]:
    """One histogram that stands on the height `base`, and points to hover over."""
    outline: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": [edge for edge in edges for _ in (0, 1)],
        "y": [base, *(base + unit * share for share in row for _ in (0, 1)), base],
        "fill": "toself",
        "fillcolor": color(group.style, 0.35),
        "line": {"color": color(group.style), "width": 1.25},
        "hoverinfo": "skip",
    }
    shown = [k for k, share in enumerate(row) if share > 0]
    points: Trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [math.sqrt(edges[k] * edges[k + 1]) for k in shown],
        "y": [base + unit * row[k] for k in shown],
        "text": [
            f"{percent(row[k])} of the nodes<br>σ {edges[k]:.3g} to {edges[k + 1]:.3g}"
            for k in shown
        ],
        "marker": {"opacity": 0, "size": 8, "color": color(group.style)},
        "hovertemplate": f"<b>after task {task}</b>: %{{text}}<extra></extra>",
    }
    return [outline, points]
