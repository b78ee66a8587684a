"""From training to the page: what a run records is what the report reads."""

import pytest

from tests.report.pages import Element, parse, section_of, specs
from tests.runs.small import run
from uclearn.report import write_report
from uclearn.runs.resolve import resolve
from uclearn.storage.records import Summary

SMALL = {"plan.epochs": 1, "tasks": 3, "network.hidden": [12, 8]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Element, dict[str, Summary]]:
    """UCL and fine-tuning on three tasks of the digits, and the page about them."""
    folder = tmp_path_factory.mktemp("real")
    summaries = {}
    for method in ("ucl", "finetuning"):
        config = resolve("permuted-digits", method, overrides=SMALL)
        command = f"uclearn run permuted-digits --method {method}"
        summaries[method] = run(config, folder / method, command=command)
    write_report([folder], folder / "report.html")
    return parse((folder / "report.html").read_text(encoding="utf-8")), summaries


def test_the_page_shows_the_accuracies_of_the_summaries(
    made: tuple[Element, dict[str, Summary]],
) -> None:
    page, summaries = made
    table = section_of(page, "permuted-digits-3-numbers").all("table")[0]
    for summary in summaries.values():
        assert summary.average_accuracy is not None
        assert f"{100 * summary.average_accuracy:.1f} %" in table.text
        assert summary.extra["command"] in table.text


def test_the_nodes_of_ucl_are_found(made: tuple[Element, dict[str, Summary]]) -> None:
    page, _ = made
    section = section_of(page, "permuted-digits-3-uncertainty")
    maps = [s["data"][0] for s in specs(section) if s["data"][0]["type"] == "heatmap"]
    assert [len(one["z"]) for one in maps] == [12, 8, 10]
    assert all(len(row) == 3 for one in maps for row in one["z"])


def test_both_are_labelled_by_their_methods_alone(
    made: tuple[Element, dict[str, Summary]],
) -> None:
    page, _ = made
    names = [button.text[1:] for button in page.all("div", "legend")[0].all("button")]
    assert sorted(names) == ["Fine-tuning", "UCL"]
