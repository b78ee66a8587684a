"""What `make bench` runs, without the measuring itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import benchmarks.data
from benchmarks.__main__ import found, main
from benchmarks.pages import filled
from benchmarks.passage import CALLS, Passage, import_all
from benchmarks.record import CHART, PAGE, RECORD, chart, tables
from benchmarks.timing import Bar
from uclearn.choices import no_such


def test_only_modules_that_measure_are_benchmarks() -> None:
    assert {"data", "growth", "passage", "rl", "trainer", "ucl_step"} <= found().keys()
    assert not {"results", "pages", "timing"} & found().keys()


@pytest.mark.parametrize(("ratio", "code"), [(0.5, 0), (2.0, 1)])
def test_a_bar_that_does_not_hold_is_an_error(
    ratio: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks.data, "measure", lambda: [Bar("it", ratio, 1.0)])
    assert main(["data"]) == code
    assert capsys.readouterr().out.splitlines()[1].split() == (
        ["it", f"{ratio:.3f}", "1.00", "NO" if code else "yes"]
    )


def test_an_unknown_name_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nonsense"]) == 2
    assert "no benchmark nonsense; there are: corners, data, growth" in capsys.readouterr().out


def test_a_passage_counts_what_is_called_of_ours_and_nothing_else() -> None:
    passage = Passage()
    passage.begin()
    no_such("task", "a", ["b"])
    len({"not": "ours"})
    passage.end()
    no_such("task", "a", ["b"])
    assert passage.functions.keys() == {"choices.py"}
    assert "no_such" in {code.co_name for code in passage.codes}


def test_learning_an_update_passes_the_gate_and_the_loop() -> None:
    import_all()
    learn, _ = CALLS["Learner.learn"]
    assert {"live/gate.py", "live/learner.py", "training/loop.py"} <= learn().functions.keys()


def test_a_record_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks.data, "measure", lambda: [Bar("it", 1.5, 1.0, "3 ms")])
    assert main(["--record", str(tmp_path / "record.json"), "data"]) == 1
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["rows"] == [{"what": "it", "measured": 1.5, "limit": 1.0, "detail": "3 ms"}]
    assert {"processor", "flags", "threads", "torch", "weights", "date"} == record["machine"].keys()
    assert "| it | 1.50 | 1.00 | **no** | 3 ms |" in tables(record)["ratios"]


def test_the_page_and_the_chart_show_the_record() -> None:
    record = json.loads(RECORD.read_text())
    page = PAGE.read_text()
    assert filled(page, tables(record)) == page
    assert chart(record) == CHART.read_text()


def test_the_chart_marks_what_exceeds_its_limit() -> None:
    rows = [{"what": "a < b", "measured": m, "limit": 1.2, "detail": ""} for m in (1.1, 1.3)]
    within, beyond = (chart({"rows": [row]}) for row in rows)
    assert "a &lt; b" in within
    assert ("#3b7dd8" in within, "#3b7dd8" in beyond) == (True, False)
