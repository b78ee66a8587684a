"""How uncertain the nodes are."""

from __future__ import annotations

import pytest

from tests.report.pages import DIGITS, Element, section_of, specs


def test_histograms_hold_every_node_once(page: Element) -> None:
    """Each ridge stands on its task's line; its heights are shares, so they add up to one unit."""
    spec = specs(section_of(page, f"{DIGITS}-uncertainty"))[0]
    ridges = [trace for trace in spec["data"] if trace.get("fill") == "toself"]
    assert len(ridges) == 5
    sums = [sum(y - ridge["y"][0] for y in ridge["y"][1:-1:2]) for ridge in ridges]
    assert sums == pytest.approx([sums[0]] * 5)
