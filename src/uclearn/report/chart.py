"""Charts as data, drawn by the page itself, and what stands around them: headings, words, legends,
the numbers as a table.

The data are Plotly's (https://plotly.com/javascript/reference), except for colours: `@name` or
`@name/opacity` stands for the colour `--name` of the page's style sheet, so that a chart follows
the page from light to dark. What belongs to a group carries its number in `meta`, by which the
legend shows and hides it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from uclearn.measures.accuracy import Number, known, mean_course
from uclearn.report.groups import COLORS, Comparison, Group
from uclearn.report.html import Attributes, Html, details, join, marked, section, tag, tools
from uclearn.report.words import listing

Trace: TypeAlias = dict[str, Any]
Layout: TypeAlias = dict[str, Any]

_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down")
_SYMBOLS = (*_SHAPES, *(f"{name}-open" for name in _SHAPES))
PERCENT_TICKS = ".1~%"
"""One digit after the point, where it is not 0."""
_GLYPHS = "●■◆▲▼○□◇△▽"
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_IN_WORDS = 12


@dataclass(frozen=True)
class Fit:
    """How a vertical axis follows what is shown."""

    percent: bool = False
    """From 0 on at the lowest, and never less than two points high."""
    together: bool = False
    """All charts of the figure have the same axis."""
    levels: Sequence[float] = ()
    """Values that are always within it."""


@dataclass(frozen=True)
class Readout:
    """How a place of a line chart is read: where it is, and the unit of its values."""

    before: str
    """Said before the place, as "after task "."""
    after: str = ""
    percent: bool = True
    digits: int = 1


@dataclass(frozen=True)
class Chart:
    """A drawing, and a sentence for those who do not see it."""

    data: Sequence[Trace]
    label: str
    layout: Layout = field(default_factory=dict)
    height: int = 340
    title: str = ""
    """For one of several panels."""
    key: int | None = None
    """The number of the group that it belongs to, if it is the only one in it."""
    fit: Fit | None = None
    """How its vertical axis follows what is shown; None: as its layout says."""
    readout: Readout | None = None
    """What is said below the figure of the place that is pointed at; None: beside the pointer."""
    labels: bool = False
    """Its points are named, as far as there is room."""


def draw(chart: Chart) -> Html:
    """The element in which the page draws `chart`."""
    layout = {"height": chart.height, **chart.layout}
    more = {
        "fit": chart.fit and vars(chart.fit),
        "readout": chart.readout and vars(chart.readout),
        "labels": chart.labels,
    }
    data = [_rounded(trace) for trace in chart.data]
    spec = {"data": data, "layout": layout} | {k: v for k, v in more.items() if v}
    # "<" is spelled so that nothing in the data can end the script element.
    text = json.dumps(spec, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    script = tag("script", {"type": "application/json"}, Html(text.replace("<", r"\u003c")))
    attributes = {
        "class": "chart",
        "role": "img",
        "aria-label": chart.label,
        "style": f"height:{chart.height}px",
    }
    return tag("div", attributes, script)


def _rounded(trace: Trace) -> Trace:
    """A group's series with as many digits as can be seen, so that many of them stay light."""
    if trace["type"] != "heatmap" and "meta" not in trace:
        return trace
    return {key: _digits(value) if key in "xyz" else value for key, value in trace.items()}


def _digits(values: Any) -> Any:
    if isinstance(values, float):
        return float(f"{values:.5g}")
    return [_digits(value) for value in values] if isinstance(values, list) else values


def panels(charts: Sequence[Chart]) -> Html:
    """Several charts side by side, as many in a row as fit."""
    cells = [
        tag("div", {"class": "panel", **_key(chart)}, tag("h4", {}, chart.title), draw(chart))
        for chart in charts
    ]
    return tag("div", {"class": "panels"}, *cells)


def _key(chart: Chart) -> Attributes:
    return {} if chart.key is None else {"data-group": chart.key}


def in_words(parts: Sequence[str]) -> str:
    """Several things in a sentence; of very many the first.

    >>> in_words(["a"] * 14)
    'a, a, a, a, a, a, a, a, a, a, a, a and 2 more'
    """
    left = len(parts) - _MOST_IN_WORDS
    return listing([*parts[:_MOST_IN_WORDS], f"{left} more"] if left > 0 else parts)


def color(style: int, opacity: float = 1) -> str:
    """The colour of a style."""
    return f"@series-{style % COLORS}" + (f"/{opacity:g}" if opacity < 1 else "")


def shape(style: int) -> tuple[str, str]:
    """The shape of a style as Plotly calls it and as a character; of each colour ten different ones
    follow each other."""
    number = (style % COLORS + 3 * (style // COLORS)) % len(_SYMBOLS)
    return _SYMBOLS[number], _GLYPHS[number]


def dash(style: int) -> str:
    """How the line of a style is broken: another way where the shapes of its colour begin again."""
    return _DASHES[style // COLORS // len(_SYMBOLS) % len(_DASHES)]


def styled_line(
    style: int,
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    width: float = 2.25,
    size: int = 7,
    meta: int | None = None,
) -> Trace:
    """A line with markers in a style; `name` is text."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        **({} if meta is None else {"meta": meta}),
        "x": list(x),
        "y": list(y),
        "line": {"color": color(style), "width": width, "dash": dash(style)},
        "marker": {"color": color(style), "symbol": shape(style)[0], "size": size},
    }


def mean_line(
    comparison: Comparison,
    group: Group,
    x: Sequence[Any],
    seeds: Sequence[Sequence[Number]],
    size: int = 7,
) -> Trace:
    """The mean over `seeds` as a line in a group's style."""
    number = comparison.number(group)
    return styled_line(group.style, group.label, x, mean_course(seeds), size=size, meta=number)


def band_and_line(
    comparison: Comparison,
    group: Group,
    x: Sequence[Any],
    seeds: Sequence[Sequence[Number]],
    more: Trace,
) -> list[Trace]:
    """The mean over `seeds`, with `more` that Plotly should know of this line; before it the band
    from the lowest to the highest, if there are several."""
    line = mean_line(comparison, group, x, seeds) | more
    if len(seeds) < 2:
        return [line]
    columns = [known(values) for values in zip(*seeds, strict=True)]
    edge: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "meta": line["meta"],
        "line": {"width": 0, "color": color(group.style, 0.01)},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    low = edge | {"y": [min(values, default=None) for values in columns]}
    high = edge | {
        "y": [max(values, default=None) for values in columns],
        "fill": "tonexty",
        "fillcolor": color(group.style, 0.16),
    }
    return [low, high, line]


BAND = " Band: from the lowest seed to the highest."
"""What a caption says where there is one."""


def plain(text: str) -> str:
    """Text for Plotly, which takes some tags for markup."""
    return escape(text, quote=False)


def task_axis(tasks: int, title: str = "tasks learned", most: int = 12) -> dict[str, Any]:
    """The axis along the tasks, counted from 1, with at most so many of them named."""
    axis: dict[str, Any] = {"tickvals": task_ticks(tasks, most), "range": [0.6, tasks + 0.4]}
    return axis | ({"title": {"text": title}} if title else {})


def task_ticks(tasks: int, most: int) -> list[int]:
    """Which tasks are named: the first, and round numbers from there on.

    >>> task_ticks(5, most=12), task_ticks(50, most=12), task_ticks(50, most=10)
    ([1, 2, 3, 4, 5], [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50], [1, 10, 20, 30, 40, 50])
    """
    for step in (1, 2, 5, 10, 20, 50):
        ticks = list(range(1, tasks + 1, step)) if step < 5 else [1, *range(step, tasks + 1, step)]
        if len(ticks) <= most:
            return ticks
    return [1, tasks]


def accuracy_axis(title: str = "") -> dict[str, Any]:
    """The axis of accuracies, fitted to what is shown."""
    axis: dict[str, Any] = {"tickformat": PERCENT_TICKS, "nticks": 8}
    return axis | ({"title": {"text": title}} if title else {})


def fitted(fit: Fit, values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that shows `values`; the page does the same (page.js).

    >>> fitted(Fit(percent=True), [0.5, 1.0])
    (0.46, 1.04)
    """
    low, high = min([*values, *fit.levels]), max([*values, *fit.levels])
    pad = 0.08 * max(high - low, 0.02 if fit.percent else 0.0) or 0.5
    return max(0.0, low - pad) if fit.percent else low - pad, high + pad


def slug(comparison: Comparison) -> str:
    """The address of a comparison within the page."""
    words = f"{comparison.benchmark} {comparison.tasks} {' '.join(comparison.marks)}".lower()
    return "-".join("".join(c if c.isalnum() else " " for c in words).split())


def section_of(comparison: Comparison, name: str, title: str, *children: str) -> Html:
    """A section of `comparison`, marked as its runs are; `name` completes its address."""
    return section(f"{slug(comparison)}-{name}", 3, title, *children, note=comparison.mark)


def figure(
    comparison: Comparison,
    name: str,
    title: str,
    body: Html,
    caption: str,
    *,
    groups: Sequence[Group] = (),
    numbers: Html | None = None,
) -> Html:
    """A section with one figure of `comparison`; `name` completes its address.

    `groups` are those in the legend that is printed with it, `numbers` the same as a table.
    """
    entries = [
        tag("li", {"data-group": comparison.number(group)}, swatch(group), group.label)
        for group in groups
    ]
    printed: Attributes = {"class": "printed legend", "aria-hidden": "true"}
    parts = [tag("ul", printed, *entries), body] if entries else [body]
    return section_of(
        comparison,
        name,
        title,
        captioned(caption, *parts, named_by=f"{slug(comparison)}-{name}"),
        tag("div", {"class": "below"}, details("The numbers", numbers)) if numbers else Html(),
    )


def captioned(caption: str, *parts: Html, named_by: str | bool = False) -> Html:
    """A figure of `parts`; `named_by` is the address of its heading, if it has one. Where something
    is drawn in it, it can be zoomed and saved."""
    attributes: Attributes = {"aria-labelledby": named_by}
    words = tag("figcaption", {}, caption)
    if not any('class="chart"' in part for part in parts):
        return tag("figure", attributes, *parts, words)
    readout = tag("p", {"class": "readout", "aria-hidden": "true"})
    buttons = tools("in", "out", "pan", "reset", "svg", "png", "pdf")
    return tag("figure", attributes, *parts, readout, words, buttons)


def swatch(group: Group) -> Html:
    """The shape of a group in its colour, underlined as its line is broken."""
    style = f"color:var(--series-{group.style % COLORS})"
    if (line := dash(group.style)) != "solid":
        kind = {"dash": "dashed", "dot": "dotted", "dashdot": "double"}[line]
        style += f";border-bottom:2px {kind}"
    attributes = {"class": "swatch", "aria-hidden": "true", "style": style}
    return tag("span", attributes, shape(group.style)[1])


def named(group: Group, *, mark_papers: bool) -> Html:
    """The name of a row: shape, label, and whether it has the paper's settings."""
    note = "paper’s settings" if mark_papers and group.is_papers else ""
    return join(swatch(group), marked(group.label, note))


def scale_bar(kind: str, low: str, high: str) -> Html:
    """What the colours of a heat map mean; `kind` is its scale in the style sheet."""
    return tag(
        "p",
        {"class": "scale-bar"},
        tag("span", {}, low),
        tag("span", {"class": f"ramp {kind}", "aria-hidden": "true"}),
        tag("span", {}, high),
    )
