"""A drawing as shapes and text, in points, from the upper left corner."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

Point = tuple[float, float]
Color = tuple[int, int, int, float]
"""Red, green and blue from 0 to 255, and how much it covers."""

FONT = "Helvetica, Arial, sans-serif"
# Of Helvetica, in thousandths of its size, from the space to the tilde.
# fmt: off
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)
# fmt: on


@dataclass(frozen=True)
class Shape:
    """A line through points, or an area within them."""

    points: Sequence[Point]
    stroke: Color | None = None
    fill: Color | None = None
    width: float = 1.0
    dash: Sequence[float] = ()
    closed: bool = False


@dataclass(frozen=True)
class Text:
    """Words at a place; `anchor` is where in them that is: start, middle or end."""

    x: float
    y: float
    words: str
    size: float = 9.0
    color: Color = (0, 0, 0, 1.0)
    anchor: str = "start"
    bold: bool = False
    upwards: bool = False
    """Turned by a quarter, to be read from below."""


@dataclass
class Scene:
    """What is drawn, in order."""

    width: float
    height: float
    items: list[Shape | Text] = field(default_factory=list)

    def add(self, *items: Shape | Text) -> None:
        """On top of all that is there."""
        self.items.extend(items)


def text_width(words: str, size: float) -> float:
    """How wide words are in Helvetica.

    >>> text_width("100 %", 10)
    28.35
    """
    known = [ord(sign) - 32 for sign in words]
    units = [_WIDTHS[k] if 0 <= k < len(_WIDTHS) else 556 for k in known]
    return sum(units) * size / 1000


_COLOUR = re.compile(r"--([a-z]+(?:-\d)?): light-dark\((#\w+), (#\w+)\)")


@cache
def style_colors() -> dict[str, tuple[str, str]]:
    """The colours of the page's style sheet: for light and for dark."""
    css = (files("uclearn.report") / "assets" / "page.css").read_text(encoding="utf-8")
    return {name: (light, dark) for name, light, dark in _COLOUR.findall(css)}


def color(said: str) -> Color:
    """A colour as charts name it, in light: `@name`, or `@name/opacity`.

    >>> color("@series-0/0.5")
    (40, 83, 196, 0.5)
    """
    name, _, opacity = said.removeprefix("@").partition("/")
    value = style_colors()[name][0]
    red, green, blue = (int(value[k : k + 2], 16) for k in (1, 3, 5))
    return red, green, blue, float(opacity or 1)
