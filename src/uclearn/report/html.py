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
) -> Html:
    """A table whose first column names the rows. Columns are numbers, but for those in `words`.

    It scrolls sideways by itself where it is too wide, by keyboard too.
    """
    kinds = ["word" if k == 0 or k in words else "number" for k in range(len(header))]
    head = [
        tag("th", {"scope": "col", "class": kind}, text)
        for text, kind in zip(header, kinds, strict=True)
    ]
    body = [
        tag(
            "tr",
            {},
            tag("th", {"scope": "row"}, first),
            *(
                tag("td", {"class": kind}, cell)
                for cell, kind in zip(cells, kinds[1:], strict=True)
            ),
        )
        for first, *cells in rows
    ]
    return scrolling(caption, tag("thead", {}, tag("tr", {}, *head)), tag("tbody", {}, *body))


def scrolling(caption: str, *parts: str) -> Html:
    """A table of `parts` that scrolls sideways by itself."""
    whole = tag("table", {}, tag("caption", {}, caption), *parts)
    region: Attributes = {"class": "scroll", "role": "region", "aria-label": caption, "tabindex": 0}
    return tag("div", region, whole)


def details(summary: str, *children: str) -> Html:
    """What is closed under its `summary` until somebody opens it."""
    return tag("details", {}, tag("summary", {}, summary), *children)


def section(identity: str, level: int, title: str, *children: str, note: str = "") -> Html:
    """A section with a heading that can be linked to; `note` is marked beside it."""
    head = tag(f"h{level}", {"id": identity}, marked(title, note))
    return tag("section", {"aria-labelledby": identity}, head, *children)
