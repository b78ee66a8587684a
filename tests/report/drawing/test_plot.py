"""Heat maps, bands and straight lines become shapes."""

from __future__ import annotations

from typing import Any

from uclearn.report.drawing.plot import Plot, plain
from uclearn.report.drawing.scene import Scene, Shape, Text, color


def drawn(*traces: dict[str, Any], **layout: Any) -> Scene:
    scene = Scene(200, 100)
    spec = {"layout": {"xaxis": {"range": [0.5, 2.5]}, "yaxis": {"range": [0.5, 2.5]}, **layout}}
    Plot(scene, spec, traces).draw(0, 0, 200, 100)
    return scene


def areas(scene: Scene) -> list[Shape]:
    return [item for item in scene.items if isinstance(item, Shape) and item.closed]


def test_a_cell_for_each_number_in_the_colour_of_its_share() -> None:
    scene = drawn(
        {
            "type": "heatmap",
            "x": [1, 2],
            "y": [1, 2],
            "z": [[0.0, None], [0.5, 1.0]],
            "zmin": 0,
            "zmax": 1,
            "colorscale": [[k / 4, f"@accuracy-{k}"] for k in range(5)],
            "text": [["0", ""], ["50", "100"]],
            "texttemplate": "%{text}",
        }
    )
    found = [area.fill for area in areas(scene)]
    assert found == [color(f"@accuracy-{k}") for k in (0, 2, 4)]
    words = {item.words: item for item in scene.items if isinstance(item, Text)}
    assert words["0"].color == color("@ink")  # dark on light, and the other way round
    assert words["100"].color == color("@surface")


def test_a_band_lies_between_two_lines() -> None:
    edge = {"type": "scatter", "mode": "lines", "x": [1, 2], "line": {"width": 0}}
    low = edge | {"y": [1.0, 1.0]}
    high = edge | {"y": [2.0, 2.0], "fill": "tonexty", "fillcolor": "@series-0/0.16"}
    (band,) = areas(drawn(low, high))
    assert band.fill == color("@series-0/0.16")
    heights = [y for _, y in band.points]
    assert heights[0] == heights[1] > heights[2] == heights[3]


def test_few_markers_on_a_line_of_many_points() -> None:
    marker = {"color": "@series-1", "symbol": "circle", "size": 6, "maxdisplayed": 8}
    x = [1 + k / 100 for k in range(100)]
    line = {"color": "@series-1", "width": 2}
    trace = {"type": "scatter", "mode": "lines+markers", "x": x, "y": x, "line": line}
    assert len(areas(drawn(trace | {"marker": marker}))) == 8


def test_markup_is_read_as_its_words() -> None:
    assert plain("a &lt;b&gt; <b>c</b>") == "a <b> c"
