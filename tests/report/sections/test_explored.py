"""What a search for settings tells: what matters, and who is level with the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.pages import DIGITS, made, rows, section_of, specs
from tests.report.runs import config, write_run

# accuracy hangs on beta alone: 0.9, 0.8 and 0.6, whatever alpha is
ACCURACY = {1: 0.9, 2: 0.8, 3: 0.6}


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    for beta, accuracy in ACCURACY.items():
        for alpha in (10, 20):
            wanted = config(settings={"beta": beta, "alpha": alpha, "twin": alpha}, tasks=1)
            write_run(tmp_path / f"{beta}-{alpha}", wanted, [[accuracy]])
    return tmp_path


def test_ties_are_shown_as_ties(grid: Path) -> None:
    section = section_of(made(grid), f"{DIGITS[:-2]}-1-explored")
    assert "2 are level at the top (90.0 %; closer than 0.1 points, with one seed)" in section.text
    heat_map, courses = specs(section)
    assert heat_map["data"][0]["text"] == [["90.0★", "80.0", "60.0"], ["90.0★", "80.0", "60.0"]]
    bold = [trace for trace in courses["data"] if trace["line"]["color"] == "@series-0"]
    assert len(courses["data"]) == 6
    assert len(bold) == 2
    shares = rows(section.all("table")[0])
    assert shares["beta"] == ["100 %", "1", "3"]
    assert shares["alpha, twin"] == ["0 %", "any", "2"]
