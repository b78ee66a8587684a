"""Just enough HTML: what is text is escaped, what is markup says so by its type."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias

Attributes: TypeAlias = Mapping[str, str | int | bool]


class Html(str):
    """A string that is markup already and must not be escaped."""


def tag(name: str, attributes: Attributes, *children: str) -> Html:
    """One element. Attributes that are False are left out, those that are True have no value.

    >>> tag("a", {"href": "#top", "hidden": False}, "1 < 2", tag("b", {}, "!"))
    '<a href="#top">1 &lt; 2<b>!</b></a>'
    """
    words = [
        f" {key}" if value is True else f' {key}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not False
    ]
    if name == "input":  # which has no end
        return Html(f"<input{''.join(words)}>")
    return Html(f"<{name}{''.join(words)}>{join(*children)}</{name}>")


def join(*parts: str) -> Html:
    """Markup one after the other; whatever is text is escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def paragraph(*children: str) -> Html:
    """A paragraph."""
    return tag("p", {}, *children)


def mark(text: str) -> Html:
    """A small label that stands out."""
    return tag("span", {"class": "mark"}, text)


def marked(text: str, *notes: str) -> Html:
    """Text with a label beside it for each of `notes` that is not empty."""
    labels = [mark(note) for note in notes if note]
    return join(text, *([" ", *labels] if labels else []))


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    words: Sequence[int] = (),
    keys: Sequence[int] = (),
) -> Html:
    """A table whose first column names the rows. Columns are numbers, but for those in `words`; one
    that is empty in all rows is left out. `keys` are the numbers of the groups that rows belong to,
    by which the page shows and hides them.

    It scrolls sideways by itself where it is too wide, by keyboard too.
    """
    kept = filled_columns(rows) if rows else range(len(header))
    kinds = ["word" if k == 0 or k in words else "number" for k in range(len(header))]
    head = [column(header[k], kinds[k]) for k in kept]
    body = []
    for number, row in enumerate(rows):
        first, *cells = [
            tag("td" if k else "th", {"class": kinds[k]} if k else {"scope": "row"}, row[k])
            for k in kept
        ]
        key: Attributes = {"data-group": keys[number]} if keys else {}
        body.append(tag("tr", key, first, *cells))
    return scrolling(caption, tag("thead", {}, tag("tr", {}, *head)), tag("tbody", {}, *body))


EMPTY = ("", "–")
"""Cells that say nothing."""


def filled_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The first, and those that say something in at least one of `rows`.

    >>> filled_columns([["a", "–", "1"], ["b", "", "–"]])
    [0, 2]
    """
    columns = range(len(rows[0]))
    return [k for k in columns if k == 0 or any(row[k] not in EMPTY for row in rows)]


def column(title: str, kind: str) -> Html:
    """The head of a column, by which the rows can be sorted."""
    inner = tag("button", {"type": "button", "class": "sort"}, title) if title else title
    return tag("th", {"scope": "col", "class": kind}, inner)


def scrolling(caption: str, *parts: str) -> Html:
    """A table of `parts` that scrolls sideways by itself and can be saved."""
    whole = tag("table", {}, tag("caption", {}, caption), *parts)
    region: Attributes = {"class": "scroll", "role": "region", "aria-label": caption, "tabindex": 0}
    return tag("div", {"class": "tabled"}, tag("div", region, whole), tools("csv", "tex"))


_TOOLS = {
    "csv": ("CSV", "Save the rows that are shown as CSV"),
    "tex": ("LaTeX", "Save the rows that are shown as a LaTeX table (booktabs)"),
    "in": ("+", "Zoom in"),
    "out": ("−", "Zoom out"),
    "pan": ("Pan", "Drag moves the chart instead of zooming in"),
    "reset": ("Reset", "Show all again; a double click on a chart does the same"),
    "svg": ("SVG", "Save the figure as SVG"),
    "png": ("PNG", "Save the figure as PNG"),
    "pdf": ("PDF", "Save the figure as PDF"),
}


def tools(*names: str) -> Html:
    """Small buttons that belong to a table or to a figure."""
    buttons = [
        tag(
            "button",
            {
                "type": "button",
                "data-tool": name,
                "title": _TOOLS[name][1],
                "aria-label": _TOOLS[name][1],
                **({"aria-pressed": "false"} if name == "pan" else {}),
            },
            _TOOLS[name][0],
        )
        for name in names
    ]
    return tag("div", {"class": "tools"}, *buttons)


def details(summary: str, *children: str) -> Html:
    """What is closed under its `summary` until somebody opens it."""
    return tag("details", {}, tag("summary", {}, summary), *children)


def section(identity: str, level: int, title: str, *children: str, note: str = "") -> Html:
    """A section with a heading that can be linked to; `note` is marked beside it."""
    head = tag(f"h{level}", {"id": identity}, marked(title, note))
    return tag("section", {"aria-labelledby": identity}, head, *children)
