"""Uncertainty of the nodes: how full the network is, and when it will be."""

from __future__ import annotations

from tests.report.pages import DIGITS, Element, rows, section_of


def test_the_capacity_is_shown_with_a_forecast(page: Element) -> None:
    section = section_of(page, f"{DIGITS}-uncertainty")
    assert "of all nodes are certain after 5 tasks. At its present pace the network is" in (
        section.text
    )
    table = section.all("table")[0]
    assert list(rows(table)) == ["Layer 1 (0)", "Layer 2 (2)", "Layer 3 (4)", "Whole network"]
