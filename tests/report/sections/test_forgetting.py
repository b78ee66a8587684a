"""What is forgotten: a matrix for each method."""

from __future__ import annotations

from tests.report.pages import DIGITS, Element, section_of, specs


def test_every_method_has_its_matrix_on_one_scale(page: Element) -> None:
    maps = [spec["data"][0] for spec in specs(section_of(page, f"{DIGITS}-matrix"))]
    assert len(maps) == 6
    assert {(one["zmin"], one["zmax"]) for one in maps} == {(0.4, 1)}
    for one in maps:
        assert all(one["z"][i][j] is None for i in range(5) for j in range(i + 1, 5))
