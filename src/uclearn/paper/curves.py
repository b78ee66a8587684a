"""What a figure or a stage is made of: lines, each a method on a benchmark with settings."""

from __future__ import annotations

from typing import Any, NamedTuple

ABLATIONS = {
    "upper_freeze": "no upper freeze",
    "freeze": "no eq. (5)",
    "inflate": "no eq. (6)",
}
"""UCL's switches, all on in the method itself: a word for what lacks one (the paper's figure 5 and
supplement, figure 3)."""


def ablations() -> list[dict[str, Any]]:
    """What is set for the whole UCL, and for UCL without each of its ingredients.

    >>> ablations()[:2]
    [{}, {'ucl.upper_freeze': False}]
    """
    return [{}, *({f"ucl.{switch}": False} for switch in ABLATIONS)]


class Curve(NamedTuple):
    """One line of a figure: a method on a benchmark, with settings of its own."""

    benchmark: str
    method: str
    overrides: dict[str, Any]
    seeds: int
    preset: str | None = None
    """None: that of the study's command."""


class Study(NamedTuple):
    """A figure of the paper, or a stage of its reproduction."""

    title: str
    curves: tuple[Curve, ...]
    note: str = ""
