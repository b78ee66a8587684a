"""What is run for one figure, or for one question: a list of curves."""

from __future__ import annotations

from typing import Any, NamedTuple


class Curve(NamedTuple):
    """One line of a figure: a method on a benchmark, with settings of its own."""

    benchmark: str
    method: str
    overrides: dict[str, Any]
    seeds: int | None = None
    """None: as many as the paper has."""
    preset: str | None = None
    """None: that of the study's command."""


class Study(NamedTuple):
    """A figure of the paper, or a stage of its reproduction."""

    title: str
    curves: tuple[Curve, ...]
    note: str = ""
