"""The tables: results, runs, commands, costs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.pages import DIGITS, SCALED, Element, made, rows, section_of, specs
from tests.report.runs import config, matrix, write_run
from uclearn.measures.accuracy import mean
from uclearn.measures.statistics import estimate


def test_the_table_has_accuracy_interval_paired_difference_and_seeds(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    assert [th.text for th in table.all("thead")[0].all("th")] == [
        "Method",
        "Average accuracy",  # first, so that it is seen on a narrow screen
        "± 95 %",
        "Points against reference",
        "Seeds",
    ]
    found = rows(table)
    kept = [mean(matrix(5, 0.97, 0.03, seed)[-1]) or 0 for seed in range(3)]
    expected = estimate([100 * value for value in kept])
    assert expected is not None
    assert next(iter(found)) == "●UCL"
    assert found["●UCL"] == [
        f"{expected.mean:.1f} %",
        f"± {expected.half_width:.1f}",
        "reference",
        "3",
    ]
    # the noise of a seed is the same for both, so the difference has none: 2 (0.06 - 0.03) + 0.02
    assert found["■EWC"][2] == "−8.0 (−8.0 to −8.0)"


def test_each_row_has_the_command_that_made_it(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    commands = [code.text for code in table.all("code")]
    assert len(commands) == 6
    assert commands[0].startswith("uclearn run permuted-digits --method ucl --preset best")


def test_a_number_of_the_paper_stands_only_beside_as_many_tasks(page: Element) -> None:
    """Four tasks were run, the paper's number is of ten."""
    section = section_of(page, f"{SCALED}-numbers")
    assert "94.5 %" not in section.text
    found = rows(section.all("table")[0])
    _, against, seeds = found["●UCL (scaled to 5 %)"]  # one seed: a column less, too
    assert (against, seeds) == ("reference", "1")
    assert "scaled to 5 %" in section.all("caption")[0].text


def test_scaled_runs_are_marked_beside_the_papers_number(tmp_path: Path) -> None:
    wanted = config(benchmark="permuted-mnist", preset="paper", scale=0.05, tasks=10)
    write_run(tmp_path / "run", wanted, matrix(10, 0.9, 0.05, 0))
    section = section_of(made(tmp_path), "permuted-mnist-10-scaled-to-5-numbers")
    ours, _, paper, _ = rows(section.all("table")[0])["●UCL (scaled to 5 %)"]
    assert "scaled to 5 %" in ours
    assert paper == "94.5 %"


def test_validation_figures_have_no_number_of_the_paper(tmp_path: Path) -> None:
    wanted = config(benchmark="permuted-mnist", preset="paper", tasks=10)
    tuning = wanted | {"data": {"judge": "validation"}}
    write_run(tmp_path / "run", tuning, matrix(10, 0.9, 0.05, 0))
    assert "94.5" not in made(tmp_path).text


def test_a_command_that_made_several_stands_below_once(tmp_path: Path) -> None:
    for beta in (1, 2, 3, 4):
        extra = {"command": "uclearn sweep x" if beta < 3 else "uclearn sweep y"}
        wanted = config(settings={"beta": beta})
        write_run(tmp_path / str(beta), wanted, matrix(5, 0.9, 0.01 * beta, 0), extra=extra)
    section = section_of(made(tmp_path), f"{DIGITS}-numbers")
    assert [code.text for code in section.all("code")] == ["uclearn sweep x", "uclearn sweep y"]
    assert "UCL, beta 1 and UCL, beta 2" in section.text


def test_incomplete_runs_are_listed_and_in_no_figure(page: Element) -> None:
    runs = section_of(page, "runs")
    (table,) = [one for one in runs.all("table") if "not complete" in one.text]
    ((folder, cells),) = rows(table).items()
    assert folder.endswith("open")
    assert cells[1:4] == ["MAS", "0", "2 of 5 tasks done"]
    assert not any("MAS" in json.dumps(spec) for spec in specs(page))


def test_costs_are_compared_with_the_plain_network(page: Element) -> None:
    parameters, time = section_of(page, f"{DIGITS}-cost").all("table")
    assert rows(parameters)["●UCL"] == ["2,000", "2.00 ×"]
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
