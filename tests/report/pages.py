"""Reading a page as a browser would: elements with their attributes, text and place."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from uclearn.report import write_report

DIGITS = "permuted-digits-5"
SCALED = "permuted-mnist-4-scaled-to-5"
"""Sections of the page that all tests look at (`conftest.report`)."""
_VOID = {"meta", "br", "link", "img", "input", "hr"}


@dataclass
class Element:
    """One element of a page."""

    name: str
    attributes: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list)

    def __iter__(self) -> Iterator["Element"]:
        """Itself and all elements in it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    @property
    def text(self) -> str:
        """All its text, without scripts; no-break spaces are spaces."""
        if self.name in ("script", "style"):
            return ""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(parts).replace("\xa0", " ").split())

    @property
    def source(self) -> str:
        """The text of a script."""
        return "".join(child for child in self.children if isinstance(child, str))

    def all(self, name: str, of_class: str = "") -> list["Element"]:
        """All elements in it of that name and class."""
        return [
            one
            for one in self
            if one.name == name
            and (not of_class or of_class in (one.attributes.get("class") or "").split())
        ]

    def by_id(self, identity: str) -> "Element":
        """The one with that id."""
        (found,) = [one for one in self if one.attributes.get("id") == identity]
        return found


def parse(text: str) -> Element:
    """The page as a tree; every element must be closed where it should."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser.open) == 1, f"never closed: {[one.name for one in parser.open[1:]]}"
    return parser.open[0]


def specs(page: Element) -> list[dict[str, Any]]:
    """The data of all charts."""
    return [json.loads(chart.all("script")[0].source) for chart in page.all("div", "chart")]


def section_of(page: Element, heading: str) -> Element:
    """The section whose heading has that id."""
    (found,) = [
        one for one in page.all("section") if one.attributes.get("aria-labelledby") == heading
    ]
    return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def made(folder: Path) -> Element:
    """The page of the runs in a folder."""
    write_report([folder], folder / "report.html")
    return parse((folder / "report.html").read_text(encoding="utf-8"))


def rows(table: Element) -> dict[str, list[str]]:
    """The cells of each row by its heading."""
    found = {}
    for row in table.all("tr"):
        cells = [child for child in row.children if isinstance(child, Element)]
        if cells[0].name == "th" and cells[0].attributes.get("scope") != "col":
            found[cells[0].text] = [cell.text for cell in cells[1:]]
    return found
