"""From the data of a chart, which are Plotly's, to shapes; the kinds that the report uses, no more:
lines with markers, bands, areas, heat maps, straight lines across, and words."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

from uclearn.report.drawing.axes import Axis
from uclearn.report.drawing.scene import Color, Point, Scene, Shape, Text, color, text_width

Trace = Mapping[str, Any]
_DASHES = {"dash": (6.0, 3.0), "dot": (1.5, 2.5), "dashdot": (6.0, 2.5, 1.5, 2.5)}
_SIZE = 8.0
_LIGHT_ENOUGH = 140  # above which dark words are read on a colour


class Plot:
    """A chart in a rectangle of a scene; `traces` are those that are shown."""

    def __init__(self, scene: Scene, spec: Mapping[str, Any], traces: Sequence[Trace]) -> None:
        self.scene, self.layout, self.traces = scene, spec["layout"], traces

    def draw(self, left: float, top: float, width: float, height: float) -> None:
        """Everything, from the grid to the words."""
        x, y = self.layout.get("xaxis", {}), self.layout.get("yaxis", {})
        down = Axis(y, self._values("y"), top + height, top)
        widest = max((text_width(words, _SIZE) for _, words in down.ticks()), default=0.0)
        room = 6 + widest + (14 if down.title else 0)
        floor = top + height - (14 if x.get("visible") is not False else 2)
        floor -= 12 if (x.get("title") or {}).get("text") else 0
        self.box = (left + room, top + 6, left + width - 8, floor)
        self.x = Axis(x, self._values("x"), self.box[0], self.box[2])
        self.y = Axis(y, self._values("y"), self.box[3], self.box[1])
        self._grid()
        for number, trace in enumerate(self.traces):
            if trace["type"] == "heatmap":
                self._heat_map(trace)
            else:
                self._scatter(trace, self.traces[number - 1] if number else trace)
        for note in self.layout.get("annotations", ()):
            place = (self.x.place(note["x"]) + note.get("xshift", 0), self.y.place(note["y"]) + 3)
            self.scene.add(Text(*place, words=plain(note["text"]), size=7.5))

    def _values(self, name: str) -> list[float]:
        half = 0.5 if any(trace["type"] == "heatmap" for trace in self.traces) else 0.0
        found = []
        for trace in self.traces:
            own = trace.get(name) or range(len(trace.get("z") or ()))
            found += [v + side for v in own if v is not None for side in (-half, half)]
        return found

    # --- what stands around the data -------------------------------------------------------------

    def _grid(self) -> None:
        left, top, right, bottom = self.box
        ink, muted = color("@grid"), color("@muted")
        for value, words in self.x.ticks():
            at = self.x.place(value)
            if self.x.layout.get("showgrid") is not False:
                self.scene.add(Shape([(at, top), (at, bottom)], ink, width=0.5))
            self.scene.add(Text(at, bottom + 10, words, _SIZE, color("@ink"), "middle"))
        for value, words in self.y.ticks():
            at = self.y.place(value)
            if self.y.layout.get("showgrid") is not False:
                self.scene.add(Shape([(left, at), (right, at)], ink, width=0.5))
            self.scene.add(Text(left - 4, at + 3, words, _SIZE, color("@ink"), "end"))
        if self.x.title:
            middle = (left + right) / 2
            self.scene.add(Text(middle, bottom + 21, self.x.title, _SIZE, muted, "middle"))
        if self.y.title:
            widest = max((text_width(words, _SIZE) for _, words in self.y.ticks()), default=0.0)
            x, y = left - widest - 9, (top + bottom) / 2
            self.scene.add(Text(x, y, self.y.title, _SIZE, muted, "middle", upwards=True))
        for line in self.layout.get("shapes", ()):
            self._across(line)

    def _across(self, line: Mapping[str, Any]) -> None:
        left, top, right, bottom = self.box
        if line.get("xref") == "paper":
            points = [(left, self.y.place(line["y0"])), (right, self.y.place(line["y0"]))]
        else:
            points = [(self.x.place(line["x0"]), top), (self.x.place(line["x0"]), bottom)]
        pen = line["line"]
        self.scene.add(Shape(points, color(pen["color"]), width=0.7, dash=_DASHES[pen["dash"]]))

    # --- lines -----------------------------------------------------------------------------------

    def _points(self, trace: Trace) -> list[list[Point]]:
        """In pieces where something is missing."""
        pieces: list[list[Point]] = [[]]
        for x, y in zip(trace["x"], trace["y"], strict=True):
            if y is None:
                pieces.append([])
            else:
                pieces[-1].append((self.x.place(x), self.y.place(y)))
        return [piece for piece in pieces if piece]

    def _scatter(self, trace: Trace, before: Trace) -> None:
        pieces, pen = self._points(trace), trace.get("line", {})
        if trace.get("fill") == "tonexty":
            edge = [point for piece in self._points(before) for point in piece]
            area = [*edge, *reversed([point for piece in pieces for point in piece])]
            self.scene.add(Shape(area, fill=color(trace["fillcolor"]), closed=True))
        elif trace.get("fill") == "toself":
            area = [point for piece in pieces for point in piece]
            self.scene.add(Shape(area, fill=color(trace["fillcolor"]), closed=True))
        if "lines" in trace["mode"] and pen.get("width"):
            dash = _DASHES.get(pen.get("dash", ""), ())
            width = 0.7 * pen["width"]
            for piece in pieces:
                self.scene.add(Shape(piece, color(pen["color"]), width=width, dash=dash))
        if "markers" in trace["mode"]:
            points = [point for piece in pieces for point in piece]
            self.scene.add(*self._markers(trace["marker"], points))

    def _markers(self, marker: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Shape]:
        if marker.get("opacity") == 0:
            return
        ink = color(marker["color"])
        ink = (*ink[:3], ink[3] * marker.get("opacity", 1))
        most = marker.get("maxdisplayed") or len(points)
        step = max(1, math.ceil(len(points) / most))
        for x, y in points[::step]:
            yield marker_shape(marker.get("symbol", "circle"), x, y, 0.36 * marker["size"], ink)

    # --- heat maps -------------------------------------------------------------------------------

    def _heat_map(self, trace: Trace) -> None:
        rows = trace["z"]
        ys = trace.get("y") or range(len(rows))
        has_words = "texttemplate" in trace
        stops = [color(stop) for _, stop in trace["colorscale"]]
        for i, (y, row) in enumerate(zip(ys, rows, strict=True)):
            for j, (x, value) in enumerate(zip(trace["x"], row, strict=True)):
                if value is None:
                    continue
                share = (value - trace["zmin"]) / (trace["zmax"] - trace["zmin"])
                fill = mixed(stops, min(max(share, 0.0), 1.0))
                a, b = self.x.place(x - 0.5), self.x.place(x + 0.5)
                c, d = self.y.place(y - 0.5), self.y.place(y + 0.5)
                gap = 0.4 if has_words else 0.0
                corners = [(a + gap, c), (b - gap, c), (b - gap, d), (a + gap, d)]
                self.scene.add(Shape(corners, fill=fill, closed=True))
                if has_words:
                    self._in_cell(trace["text"][i][j], (a + b) / 2, (c + d) / 2, fill)

    def _in_cell(self, words: str, x: float, y: float, behind: Color) -> None:
        light = 0.3 * behind[0] + 0.59 * behind[1] + 0.11 * behind[2]
        ink = color("@ink") if light > _LIGHT_ENOUGH else color("@surface")
        self.scene.add(Text(x, y + 2.5, words, 7, ink, "middle"))


def mixed(stops: Sequence[Color], share: float) -> Color:
    """The colour at a share of the way through `stops`.

    >>> mixed([(0, 0, 0, 1.0), (100, 200, 50, 1.0)], 0.5)
    (50, 100, 25, 1.0)
    """
    at = share * (len(stops) - 1)
    k = min(int(at), len(stops) - 2)
    red, green, blue = (
        round(a + (at - k) * (b - a)) for a, b in zip(stops[k][:3], stops[k + 1][:3], strict=True)
    )
    return red, green, blue, 1.0


_CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    "triangle-down": ((0, 1.1), (1.1, -0.9), (-1.1, -0.9)),
    "circle": tuple((math.cos(k * math.pi / 10), math.sin(k * math.pi / 10)) for k in range(20)),
}


def marker_shape(symbol: str, x: float, y: float, radius: float, ink: Color) -> Shape:
    """A marker, filled or open, as Plotly calls it."""
    corners = _CORNERS[symbol.removesuffix("-open")]
    points = [(x + radius * a, y + radius * b) for a, b in corners]
    if symbol.endswith("-open"):
        return Shape(points, ink, (255, 255, 255, 1.0), 0.9, closed=True)
    return Shape(points, None, ink, closed=True)


def plain(markup: str) -> str:
    """What Plotly's markup says."""
    return unescape(re.sub(r"<[^>]*>", "", markup))
