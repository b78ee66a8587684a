"""The page read again: its elements, figures and tables, so that what is written for a paper is
what the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from uclearn.report.drawing.figure import Panel, Scale
from uclearn.report.latex import Cells

_VOID = {"meta", "br", "input"}
_ON_REQUEST = "The same for"
"""How the summary of what is shown on request begins, which a paper does without."""


@dataclass
class Element:
    """One element of a page."""

    name: str
    attributes: dict[str, str]
    parent: Element | None
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Itself and all elements in it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def above(self) -> Iterator[Element]:
        """What it stands in, from the inside."""
        if self.parent is not None:
            yield self.parent
            yield from self.parent.above()

    def has_class(self, name: str) -> bool:
        """Whether it is of a class."""
        return name in self.attributes.get("class", "").split()

    def of_class(self, name: str) -> list[Element]:
        """All in it that are of a class."""
        return [one for one in self if one.has_class(name)]

    def named(self, name: str) -> list[Element]:
        """All in it that are called so."""
        return [one for one in self if one.name == name]

    @property
    def text(self) -> str:
        """What it says; without marks, shapes and scripts."""
        if self.name == "script" or self.has_class("mark") or self.has_class("swatch"):
            return ""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(parts).replace("\xa0", " ").split())


def read_page(text: str) -> Element:
    """The page as a tree."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return parser.at


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.at = Element("document", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs}, self.at)
        self.at.children.append(element)
        if tag not in _VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        if self.at.parent is not None:
            self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def shown(study: Element) -> set[int]:
    """The numbers of the groups that the page shows at first."""
    return {
        int(one.attributes["data-group"])
        for one in study.named("button")
        if one.attributes.get("aria-pressed") == "true" and "data-group" in one.attributes
    } | {-1}


def is_seen(element: Element, groups: set[int]) -> bool:
    """Whether it belongs to what is shown at first, or is nobody's; not what is on request."""
    for one in (element, *element.above()):
        number = one.attributes.get("data-group")
        if number is not None and int(number) not in groups:
            return False
        if one.name == "details" and one.named("summary")[0].text.startswith(_ON_REQUEST):
            return False
    return True


def panels_of(figure: Element, groups: set[int]) -> list[Panel]:
    """The charts of a figure that are seen."""
    found = []
    for chart in figure.of_class("chart"):
        if not is_seen(chart, groups):
            continue
        (script,) = chart.named("script")
        panel = next((one for one in chart.above() if one.has_class("panel")), None)
        title = panel.named("h4")[0].text if panel else ""
        found.append(Panel(title, json.loads("".join(map(str, script.children)))))
    return found


def scale_of(figure: Element) -> Scale | None:
    """What the colours of its heat maps mean, if it has some."""
    bars = figure.of_class("scale-bar")
    if not bars:
        return None
    low, ramp, high = bars[0].named("span")
    return Scale(ramp.attributes["class"].split()[-1], low.text, high.text)


def cells_of(table: Element, groups: set[int]) -> Cells:
    """What a table says in the rows that are seen, without commands."""
    head, *rows = [
        [cell for cell in row.children if isinstance(cell, Element)]
        for row in table.named("tr")
        if is_seen(row, groups)
    ]
    kept = [row for row in rows if not row[0].has_class("command")]
    (caption,) = table.named("caption")
    return Cells(
        caption.text,
        [cell.text for cell in head],
        [[cell.text for cell in row] for row in kept],
    )
