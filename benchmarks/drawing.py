"""Line charts as SVG that suit light and dark pages, small enough to be committed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from uclearn.report.drawing.scene import style_colors

WIDTH, HEIGHT = 370, 200
"""Of a panel, without what stands below it."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 26, 34
_ROW = 15

Values = Sequence[float | None]


@dataclass(frozen=True)
class Line:
    """What one method did."""

    style: int
    """The number of its colour; from 10 on the same again, dashed."""
    x: Sequence[float]
    y: Values
    low: Values = ()
    high: Values = ()
    said: str = ""
    """In the list below the panel; empty: nothing."""


@dataclass(frozen=True)
class Panel:
    """One chart of a figure; without lines, what is missing."""

    title: str
    lines: Sequence[Line] = ()
    missing: str = ""
    percent: bool = True
    borders: Sequence[float] = ()
    """Where a dotted line stands, from top to bottom."""
    levels: Sequence[float] = ()
    """Where a dashed line stands, from left to right."""
    x_title: str = ""
    said: Sequence[str] = field(default=())
    """Lines of text below the list."""


def drawn(title: str, panels: Sequence[Panel], columns: int) -> str:
    """The panels side by side, `columns` in a row."""
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    heights = [HEIGHT + _ROW * max(map(_lines_below, row)) + 8 for row in rows]
    width, height = WIDTH * min(columns, len(panels)), sum(heights) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(title)}</title>",
        _style(),
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    top = 4
    for row, tall in zip(rows, heights, strict=True):
        for column, panel in enumerate(row):
            parts.append(f'<g transform="translate({WIDTH * column},{top})">')
            parts += _panel(panel)
            parts.append("</g>")
        top += tall
    return "\n".join([*parts, "</svg>", ""])


def _style() -> str:
    """The report's colours; the page's own scheme decides."""

    def rules(which: int) -> str:
        own = {name: pair[which] for name, pair in style_colors().items()}
        series = [
            f".l{k}{{stroke:{own[f'series-{k}']}}}.f{k}{{fill:{own[f'series-{k}']}}}"
            for k in range(10)
        ]
        rest = (
            f"text{{fill:{own['ink']}}}.m{{fill:{own['muted']}}}.a{{stroke:{own['line']}}}"
            f".d{{stroke:{own['muted']}}}.page{{fill:{own['page']}}}"
        )
        return rest + "".join(series)

    return (
        "<style>path{fill:none;stroke-width:1.8}.b{fill-opacity:.15;stroke:none}"
        f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>"
    )


def _lines_below(panel: Panel) -> int:
    return sum(bool(line.said) for line in panel.lines) + len(panel.said)


def _panel(panel: Panel) -> Iterable[str]:
    yield f'<text x="{_LEFT}" y="15" font-weight="bold">{escape(panel.title)}</text>'
    if not panel.lines:
        yield f'<text class="m" x="{_LEFT}" y="40">{escape(panel.missing)}</text>'
    else:
        yield from _plot(panel)
    told = [(line.style, line.said) for line in panel.lines if line.said]
    y = HEIGHT + 8
    for style, said in told:
        yield f'<path {_stroke(style)} d="M{_LEFT} {y - 4}h18"/>'
        yield f'<text x="{_LEFT + 24}" y="{y}">{escape(said)}</text>'
        y += _ROW
    for said in panel.said:
        yield f'<text class="m" x="{_LEFT}" y="{y}">{escape(said)}</text>'
        y += _ROW


def _stroke(style: int) -> str:
    dash = ' stroke-dasharray="5 3"' if style >= 10 else ""
    return f'class="l{style % 10}"{dash}'


class _Scale:
    """From what is measured to where it stands in a panel."""

    def __init__(self, panel: Panel) -> None:
        xs = [x for line in panel.lines for x in line.x]
        every = [[*line.y, *line.low, *line.high] for line in panel.lines]
        ys = [y for line in every for y in line if y is not None] + list(panel.levels)
        self.left, self.right = min(xs), max(xs)
        self.ticks = _ticks(min(ys), max(ys))
        self.bottom, self.top = min(self.ticks[0], *ys), max(self.ticks[-1], *ys)

    def across(self, x: float) -> float:
        share = (x - self.left) / (self.right - self.left or 1)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def up(self, y: float) -> float:
        share = (y - self.bottom) / (self.top - self.bottom or 1)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP), 1)

    def points(self, line: Line, values: Values) -> list[tuple[float, float]]:
        pairs = zip(line.x, values, strict=True)
        return [(self.across(x), self.up(y)) for x, y in pairs if y is not None]


def _plot(panel: Panel) -> Iterable[str]:
    scale = _Scale(panel)
    yield from _frame(panel, scale)
    for line in panel.lines:
        if line.low and line.high:
            edge = scale.points(line, line.high) + scale.points(line, line.low)[::-1]
            corners = " ".join(f"{x},{y}" for x, y in edge)
            yield f'<polygon class="b f{line.style % 10}" points="{corners}"/>'
    for line in panel.lines:
        points = scale.points(line, line.y)
        if len(points) == 1:
            ((x, y),) = points
            yield f'<circle class="f{line.style % 10}" cx="{x}" cy="{y}" r="3"/>'
            continue
        path = "L".join(f"{x} {y}" for x, y in points)
        yield f'<path {_stroke(line.style)} d="M{path}"/>'


def _frame(panel: Panel, scale: _Scale) -> Iterable[str]:
    floor, end = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for tick in scale.ticks:
        said, y = f"{100 * tick if panel.percent else tick:g}", scale.up(tick)
        yield f'<path class="a" d="M{_LEFT} {y}H{end}"/>'
        yield f'<text class="m" x="{_LEFT - 5}" y="{y + 4}" text-anchor="end">{said}</text>'
    dotted = [f"M{scale.across(border)} {_TOP}V{floor}" for border in panel.borders]
    dashed = [f"M{_LEFT} {scale.up(level)}H{end}" for level in panel.levels]
    for lines, dash in ((dotted, "1 3"), (dashed, "5 4")):
        for line in lines:
            yield f'<path class="d" d="{line}" stroke-width="1" stroke-dasharray="{dash}"/>'
    titles = (
        (_LEFT, "start", f"{scale.left:,.0f}"),
        ((_LEFT + end) / 2, "middle", escape(panel.x_title)),
        (end, "end", f"{scale.right:,.0f}"),
    )
    for x, anchor, said in titles:
        yield f'<text class="m" x="{x}" y="{floor + 14}" text-anchor="{anchor}">{said}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers from at most `low` to at least `high`.

    >>> _ticks(0.43, 0.97)
    [0.4, 0.6, 0.8, 1.0]
    """
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = 10 ** math.floor(math.log10(high - low))
    for factor in (0.2, 0.5, 1, 2, 5):
        size = step * factor
        first, last = math.floor(low / size), math.ceil(high / size)
        if last - first <= 6:
            return [round(k * size, 10) for k in range(first, last + 1)]
    return [low, high]
