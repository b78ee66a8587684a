"""Settings of one method are folded, and a filter chooses where there are many."""

from __future__ import annotations

from pathlib import Path

from tests.report.pages import Element, parse
from tests.report.runs import config, matrix, write_run
from uclearn.report.groups import collect, comparisons
from uclearn.report.legend import legend


def made(folder: Path, settings: int) -> Element:
    """The legend of so many settings of UCL, and of EWC."""
    wanted = [config(settings={"beta": k}, tasks=2) for k in range(settings)]
    for number, one in enumerate([*wanted, config("ewc", tasks=2)]):
        write_run(folder / str(number), one, matrix(2, 0.9 - 0.01 * number, 0.1, 0))
    (comparison,) = comparisons(collect([folder]).complete)
    return parse(legend(comparison, comparison.compared))


def test_few_stand_side_by_side(tmp_path: Path) -> None:
    found = made(tmp_path, 3)
    assert [button.text[1:] for button in found.all("button")] == [
        "UCL, beta 0",
        "UCL, beta 1",
        "UCL, beta 2",
        "EWC",
    ]
    assert not found.all("details")
    assert not found.all("input")


def test_many_are_folded_and_a_dozen_pressed(tmp_path: Path) -> None:
    found = made(tmp_path, 15)
    (family,) = found.all("div", "family")
    assert family.all("summary")[0].text == "15 settings"
    assert family.all("button")[0].text == "●UCL"
    pressed = [b for b in found.all("button") if b.attributes.get("aria-pressed") == "true"]
    assert len(pressed) == 12
    assert pressed[-1].text == "■EWC"
    (chooser,) = found.all("div", "chooser")
    assert chooser.text == "ShowFirst 12All 1612 of 16 shown"
