"""Accuracy over tasks: panels, bands, ablations."""

from __future__ import annotations

from pathlib import Path

from tests.report.pages import DIGITS, SCALED, Element, made, rows, section_of, specs
from tests.report.runs import config, matrix, write_run


def test_one_seed_shows_no_interval_and_no_band(page: Element) -> None:
    section = section_of(page, f"{SCALED}-average")
    (spec,) = specs(section)
    assert not any("fill" in trace for trace in spec["data"])
    assert all("one seed" in text for trace in spec["data"] for text in trace["text"])
    card = next(one for one in page.all("article") if "MNIST" in one.text)
    assert "±" not in card.text
    assert "with one seed: nothing says yet how much of that is chance" in card.text


def test_three_seeds_show_a_band_from_the_lowest_to_the_highest(page: Element) -> None:
    (spec,) = specs(section_of(page, f"{DIGITS}-average"))
    low, high, line = spec["data"][:3]
    assert high["fill"] == "tonexty"
    assert all(a <= m <= b for a, m, b in zip(low["y"], line["y"], high["y"], strict=True))
    assert low["y"] != high["y"]


def test_there_is_a_panel_for_each_task_and_one_for_the_average(page: Element) -> None:
    panels = section_of(page, f"{DIGITS}-tasks").all("div", "panel")
    titles = [panel.all("h4")[0].text for panel in panels]
    assert titles == ["Task 1", "Task 2", "Task 3", "Task 4", "Task 5", "Average so far"]


def test_a_panel_starts_where_its_task_was_learned(page: Element) -> None:
    third = specs(section_of(page, f"{DIGITS}-tasks"))[2]
    for trace in third["data"]:
        assert trace["y"][:2] == [None, None]
        assert None not in trace["y"][2:]


def test_the_ablations_stand_beside_ucl(page: Element) -> None:
    section = section_of(page, f"{DIGITS}-ablations")
    table = section.all("table")[0]
    assert list(rows(table)) == [
        "UCL",
        "UCL, no eq. (6)",
        "UCL, no upper freeze",
        "UCL, no eq. (5)",
    ]
    assert rows(table)["UCL, no eq. (5)"][-1].startswith("−15.0 (")


def test_an_ablation_has_no_number_of_the_paper(tmp_path: Path) -> None:
    for freeze in (True, False):
        settings = {"freeze": freeze, "inflate": True}
        wanted = config(benchmark="permuted-mnist", settings=settings, tasks=10)
        write_run(tmp_path / f"{freeze}", wanted, matrix(10, 0.9, 0.01, 0))
    table = section_of(made(tmp_path), "permuted-mnist-10-numbers").all("table")[0]
    heads = [th.text for th in table.all("thead")[0].all("th")]
    paper = heads.index("Paper") - 1
    assert rows(table)["●UCL"][paper] == "94.5 %"
    assert rows(table)["▲UCL, no eq. (5)"][paper] == "–"
