"""The tables: results, runs, commands, costs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.pages import DIGITS, SCALED, Element, made, rows, section_of, specs
from tests.report.runs import config, matrix, write_run
from uclearn.measures.accuracy import mean
from uclearn.measures.statistics import estimate


def test_the_table_has_the_paper_ours_seeds_interval_and_paired_difference(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    assert [th.text for th in table.all("thead")[0].all("th")] == [
        "Method",
        "Paper",
        "Ours",
        "Seeds",
        "95 % interval",
        "Points against reference",
    ]
    found = rows(table)
    kept = [mean(matrix(5, 0.97, 0.03, seed)[-1]) or 0 for seed in range(3)]
    expected = estimate([100 * value for value in kept])
    assert expected is not None
    assert expected.ends is not None
    assert next(iter(found)) == "●UCL"
    assert found["●UCL"] == [
        "–",
        f"{expected.mean:.1f} %",
        "3",
        f"{expected.ends[0]:.1f} to {expected.ends[1]:.1f}",
        "reference",
    ]
    # the noise of a seed is the same for both, so the difference has none: 2 (0.06 - 0.03) + 0.02
    assert found["■EWC"][-1] == "−8.0 (−8.0 to −8.0)"


def test_each_row_has_the_command_that_made_it(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    commands = [code.text for code in table.all("code")]
    assert len(commands) == 6
    assert commands[0].startswith("uclearn run permuted-digits --method ucl --preset best")


def test_scaled_runs_are_marked_beside_the_papers_number(page: Element) -> None:
    section = section_of(page, f"{SCALED}-numbers")
    found = rows(section.all("table")[0])
    paper, ours, seeds, interval, _ = found["●UCL (scaled to 5 %)"]
    assert paper == "94.5 %"
    assert "scaled to 5 %" in ours
    assert "4 tasks instead of 10" in ours
    assert (seeds, interval) == ("1", "–")
    assert "scaled to 5 %" in section.all("caption")[0].text


def test_incomplete_runs_are_listed_and_in_no_figure(page: Element) -> None:
    runs = section_of(page, "runs")
    (table,) = [one for one in runs.all("table") if "not complete" in one.text]
    ((folder, cells),) = rows(table).items()
    assert folder.endswith("open")
    assert cells[1:4] == ["MAS", "0", "2 of 5 tasks done"]
    assert not any("MAS" in json.dumps(spec) for spec in specs(page))


def test_costs_are_compared_with_the_plain_network(page: Element) -> None:
    parameters, time = section_of(page, f"{DIGITS}-cost").all("table")
    assert rows(parameters)["●UCL"] == ["2,000", "2.00 ×", "–"]
    assert rows(time)["●UCL"][0] == "15.0 s"


def test_the_precision_that_a_plan_left_open_is_said(tmp_path: Path) -> None:
    for method, digits in (("ucl", "bfloat16"), ("ewc", "bfloat16"), ("si", None)):
        extra = {} if digits is None else {"precision": digits}
        write_run(tmp_path / method, config(method), matrix(5, 0.9, 0.1, 0), extra=extra)
    (said,) = [p.text for p in made(tmp_path).all("p") if "Measured on" in p.text]
    assert said.endswith("Computed in bfloat16: UCL and EWC.")


def test_who_worked_on_the_weights_is_said(tmp_path: Path) -> None:
    for method, who in (("ucl", "native"), ("ewc", None)):
        extra = {} if who is None else {"weights": who}
        write_run(tmp_path / method, config(method), matrix(5, 0.9, 0.1, 0), extra=extra)
    (said,) = [p.text for p in made(tmp_path).all("p") if "Measured on" in p.text]
    assert said.endswith("Weights worked on by native code: UCL.")
