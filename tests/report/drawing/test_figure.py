"""A whole figure from the data of its charts."""

from __future__ import annotations

from typing import Any

from uclearn.report.drawing.figure import Panel, Scale, compose
from uclearn.report.drawing.scene import Scene, Shape, Text


def line(number: int, *y: float | None) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"method {number}",
        "meta": number,
        "x": list(range(1, len(y) + 1)),
        "y": list(y),
        "line": {"color": f"@series-{number}", "width": 2, "dash": "solid"},
        "marker": {"color": f"@series-{number}", "symbol": "square-open", "size": 6},
    }


def panel(*traces: dict[str, Any], together: bool = False) -> Panel:
    fit = {"percent": True, "together": together, "levels": []}
    layout = {"height": 200, "xaxis": {}, "yaxis": {"tickformat": ".1~%"}}
    return Panel("Task 1", {"data": traces, "layout": layout, "fit": fit})


def said(scene: Scene) -> list[str]:
    return [item.words for item in scene.items if isinstance(item, Text)]


def lines(scene: Scene) -> list[Shape]:
    """With as many points as the data have."""
    found = [item for item in scene.items if isinstance(item, Shape)]
    return [item for item in found if len(item.points) == 3 and not item.closed]


def test_only_what_is_shown_is_drawn_and_named() -> None:
    whole = panel(line(0, 0.9, 0.8, 0.7), line(1, 0.5, 0.4, 0.3), line(2, 0.1, 0.1, 0.1))
    scene = compose([whole], {0, 1}, None)
    assert len(lines(scene)) == 2
    assert {"method 0", "method 1"} <= set(said(scene))
    assert "method 2" not in said(scene)
    assert "10%" not in said(scene)  # the axis fits what is left
    assert len(lines(compose([whole], None, None))) == 3


def test_a_gap_is_a_gap() -> None:
    scene = compose([panel(line(0, 0.9, None, 0.7), line(1, 0.5, 0.4, 0.3))], None, None)
    assert len(lines(scene)) == 1


def test_panels_that_belong_together_have_one_axis() -> None:
    def height_of_first(together: bool) -> float:
        both = [panel(line(0, y, y, y), together=together) for y in (0.9, 0.1)]
        first, second = lines(compose(both, None, None))
        return second.points[0][1] - first.points[0][1]

    assert height_of_first(together=False) == 0  # each in the middle of its own axis
    assert height_of_first(together=True) > 60


def test_the_scale_of_colours_stands_above() -> None:
    scene = compose([panel(line(0, 0.9))], None, Scale("accuracy", "40 %", "100 %"))
    assert said(scene)[:2] == ["40 %", "100 %"]
    assert sum(isinstance(item, Shape) and item.points[0][1] == 3 for item in scene.items) == 5
