"""A whole figure: panels with their titles, a legend, a scale of colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uclearn.report.chart import Fit, fitted
from uclearn.report.drawing.plot import Plot, marker_shape, plain
from uclearn.report.drawing.scene import Scene, Shape, Text, color, text_width

Spec = Mapping[str, Any]
_WIDTH = 468.0
"""In points: the text of a page."""
_SCALE = 0.72
"""Points for what the page draws as a pixel of height."""
_LINE = 13.0


@dataclass(frozen=True)
class Panel:
    """One chart of a figure, as the page has it."""

    title: str
    spec: Spec


@dataclass(frozen=True)
class Scale:
    """What the colours of heat maps mean: their name in the style sheet, and both ends."""

    kind: str
    low: str
    high: str


def compose(panels: Sequence[Panel], shown: set[int] | None, scale: Scale | None) -> Scene:
    """The panels in rows, with the traces of the groups that are `shown` (None: all)."""
    columns = 1 if len(panels) == 1 else min(3, len(panels))
    width = _WIDTH / columns
    kept = [_kept(panel.spec, shown) for panel in panels]
    specs = _fitted(panels, kept)
    heights = [_SCALE * spec["layout"]["height"] for spec in specs]
    head = 12.0 if any(panel.title for panel in panels) else 0.0
    scene = Scene(_WIDTH, 0.0)
    top = _scale(scene, scale) if scale else 0.0
    for first in range(0, len(panels), columns):
        row = range(first, min(first + columns, len(panels)))
        tallest = max(heights[k] for k in row)
        for k in row:
            left = width * (k - first)
            if title := panels[k].title:
                title = _cut(title, width - 8, 8.5)
                scene.add(Text(left + 4, top + 9, title, 8.5, color("@ink"), bold=True))
            Plot(scene, specs[k], kept[k]).draw(left, top + head, width, heights[k])
        top += tallest + head + 6
    scene.height = _legend(scene, [trace for traces in kept for trace in traces], top)
    return scene


def _kept(spec: Spec, shown: set[int] | None) -> list[Spec]:
    return [
        trace
        for trace in spec["data"]
        if shown is None or trace.get("meta") is None or trace["meta"] in shown
    ]


def _fitted(panels: Sequence[Panel], kept: Sequence[Sequence[Spec]]) -> list[Spec]:
    """The panels' data, with vertical axes that fit what is shown."""
    values = [[y for trace in own for y in trace.get("y", ()) if y is not None] for own in kept]
    every = [value for own in values for value in own]
    found: list[Spec] = []
    for panel, own in zip(panels, values, strict=True):
        said = panel.spec.get("fit")
        if not said or not own:
            found.append(panel.spec)
            continue
        fit = Fit(**said)
        axis = panel.spec["layout"].get("yaxis", {}) | {
            "range": fitted(fit, every if fit.together else own)
        }
        found.append({**panel.spec, "layout": {**panel.spec["layout"], "yaxis": axis}})
    return found


def _cut(words: str, width: float, size: float) -> str:
    while text_width(words, size) > width:
        words = words.rstrip("…")[:-1] + "…"
    return words


def _legend(scene: Scene, traces: Sequence[Spec], top: float) -> float:
    """The names of what is drawn, in as many lines as they need; where they end."""
    named = {
        trace.get("meta", trace["name"]): trace
        for trace in traces
        if trace.get("name") and trace["type"] == "scatter"
    }
    x, y = 4.0, top + 9
    for trace in named.values() if len(named) > 1 else ():
        words = plain(trace["name"])
        needs = 22 + text_width(words, 8.5)
        if x > 4 and x + needs > _WIDTH:
            x, y = 4.0, y + _LINE
        pen, marker = trace.get("line", {}), trace.get("marker", {})
        ink = color(marker.get("color") or pen["color"])
        if "lines" in trace["mode"]:
            scene.add(Shape([(x, y - 3), (x + 12, y - 3)], ink, width=1.2))
        if "markers" in trace["mode"]:
            scene.add(marker_shape(marker.get("symbol", "circle"), x + 6, y - 3, 2.6, ink))
        scene.add(Text(x + 16, y, words, 8.5, color("@ink")))
        x += needs + 4
    return y + 6 if len(named) > 1 else top


def _scale(scene: Scene, scale: Scale) -> float:
    scene.add(Text(4, 10, scale.low, 8, color("@muted")))
    left = 10 + text_width(scale.low, 8)
    for k in range(5):
        a, b = left + 18 * k, left + 18 * (k + 1)
        corners = [(a, 3), (b, 3), (b, 11), (a, 11)]
        scene.add(Shape(corners, fill=color(f"@{scale.kind}-{k}"), closed=True))
    scene.add(Text(left + 96, 10, scale.high, 8, color("@muted")))
    return 18.0
