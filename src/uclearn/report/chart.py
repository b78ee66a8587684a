"""Charts as data, drawn by the page itself, and what stands around them: headings, words, legends,
the numbers as a table.

The data are Plotly's (https://plotly.com/javascript/reference), except for colours: `@name` or
`@name/opacity` stands for the colour `--name` of the page's style sheet, so that a chart follows
the page from light to dark. What belongs to a group carries its number in `meta`, by which the
legend shows and hides it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from uclearn.measures.accuracy import Number, known, mean_course
from uclearn.report.groups import COLORS, Comparison, Group
from uclearn.report.html import Attributes, Html, details, section, tag

Trace: TypeAlias = dict[str, Any]
Layout: TypeAlias = dict[str, Any]

_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down")
_SYMBOLS = (*_SHAPES, *(f"{name}-open" for name in _SHAPES))
PERCENT_TICKS = ".1~%"
"""One digit after the point, where it is not 0."""
_GLYPHS = "●■◆▲▼○□◇△▽"


@dataclass(frozen=True)
class Chart:
    """A drawing, and a sentence for those who do not see it."""

    data: Sequence[Trace]
    label: str
    layout: Layout = field(default_factory=dict)
    height: int = 340
    title: str = ""
    """For one of several panels."""


def draw(chart: Chart) -> Html:
    """The element in which the page draws `chart`."""
    layout = {"height": chart.height, **chart.layout}
    # "<" is spelled so that nothing in the data can end the script element.
    text = json.dumps({"data": chart.data, "layout": layout}, allow_nan=False, ensure_ascii=False)
    spec = tag("script", {"type": "application/json"}, Html(text.replace("<", r"\u003c")))
    attributes = {
        "class": "chart",
        "role": "img",
        "aria-label": chart.label,
        "style": f"height:{chart.height}px",
    }
    return tag("div", attributes, spec)


def panels(charts: Sequence[Chart]) -> Html:
    """Several charts side by side, as many in a row as fit."""
    cells = [
        tag("div", {"class": "panel"}, tag("h4", {}, chart.title), draw(chart)) for chart in charts
    ]
    return tag("div", {"class": "panels"}, *cells)


def color(style: int, opacity: float = 1) -> str:
    """The colour of a style."""
    return f"@series-{style % COLORS}" + (f"/{opacity:g}" if opacity < 1 else "")


def shape(style: int) -> tuple[str, str]:
    """The shape of a style as Plotly calls it and as a character; another where the colours begin
    again."""
    number = (style + len(_SHAPES) * (style // COLORS)) % len(_SYMBOLS)
    return _SYMBOLS[number], _GLYPHS[number]


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
        "line": {"color": color(style), "width": width},
        "marker": {"color": color(style), "symbol": shape(style)[0], "size": size},
    }


def mean_line(
    comparison: Comparison,
    group: Group,
    x: Sequence[Any],
    seeds: Sequence[Sequence[Number]],
    size: int = 7,
) -> Trace:
    """The mean over `seeds` as a line in a group's style; scaled runs are dashed."""
    number = comparison.groups.index(group)
    trace = styled_line(group.style, group.label, x, mean_course(seeds), size=size, meta=number)
    trace["line"]["dash"] = "dash" if group.config.get("scale") is not None else "solid"
    return trace


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


def accuracy_axis(lowest: float, highest: float, title: str = "") -> dict[str, Any]:
    """The axis of accuracies from round numbers around `lowest` and `highest`."""
    bottom = max(0.0, math.floor(20 * lowest) / 20 - 0.025)
    top = math.ceil(20 * highest) / 20
    top += 0.04 * (top - bottom)
    axis: dict[str, Any] = {"tickformat": PERCENT_TICKS, "range": [bottom, top], "nticks": 8}
    return axis | ({"title": {"text": title}} if title else {})


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
    saves: bool = False,
) -> Html:
    """A section with one figure of `comparison`; `name` completes its address.

    `groups` are those in the legend that is printed with it, `numbers` the same as a table,
    `saves` offers the (only) chart as a file.
    """
    entries = [tag("li", {}, swatch(group), group.label) for group in groups]
    printed: Attributes = {"class": "printed legend", "aria-hidden": "true"}
    parts = [tag("ul", printed, *entries), body] if entries else [body]
    below = [details("The numbers", numbers)] if numbers else []
    if saves:
        below.append(tag("button", {"type": "button", "class": "save"}, "Save as SVG"))
    return section_of(
        comparison,
        name,
        title,
        captioned(caption, *parts, named_by=f"{slug(comparison)}-{name}"),
        tag("div", {"class": "below"}, *below) if below else Html(),
    )


def captioned(caption: str, *parts: Html, named_by: str | bool = False) -> Html:
    """A figure of `parts`; `named_by` is the address of its heading, if it has one."""
    attributes: Attributes = {"aria-labelledby": named_by}
    return tag("figure", attributes, *parts, tag("figcaption", {}, caption))


def legend(comparison: Comparison, groups: Sequence[Group]) -> Html:
    """Which colour and shape is whose: buttons that show and hide it in all its figures."""
    pressed: Attributes = {"type": "button", "aria-pressed": "true"}
    buttons = [
        tag(
            "button",
            {**pressed, "data-group": comparison.groups.index(group)},
            swatch(group),
            group.label,
        )
        for group in groups
    ]
    attributes = {"class": "legend", "role": "group", "aria-label": "Show or hide in the figures"}
    return tag("div", attributes, *buttons)


def swatch(group: Group) -> Html:
    """The shape of a group in its colour."""
    style = f"color:var(--series-{group.style % COLORS})"
    attributes = {"class": "swatch", "aria-hidden": "true", "style": style}
    return tag("span", attributes, shape(group.style)[1])


def scale_bar(kind: str, low: str, high: str) -> Html:
    """What the colours of a heat map mean; `kind` is its scale in the style sheet."""
    return tag(
        "p",
        {"class": "scale-bar"},
        tag("span", {}, low),
        tag("span", {"class": f"ramp {kind}", "aria-hidden": "true"}),
        tag("span", {}, high),
    )
