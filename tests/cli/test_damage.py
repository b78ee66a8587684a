"""A damaged record is named in whatever a command writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.months import FAST, teach
from tests.cli.terminal import Uclearn, run_small
from uclearn.storage.records import find_runs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def only_records(monkeypatch: pytest.MonkeyPatch, uclearn: Uclearn) -> None:
    """The doctor looks at no method here, and has room for a sentence."""
    monkeypatch.setattr("uclearn.cli.doctor._methods", lambda: ())
    monkeypatch.setenv("COLUMNS", "2000")


@pytest.mark.parametrize("name", ["summary.json", "config.json", "events.jsonl"])
def test_a_changed_digit_is_told_by_every_output(
    uclearn: Uclearn, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    run_small(uclearn, "--quiet")
    run_small(uclearn, "--quiet", "--set", "plan.lr=0.01")
    one, other = find_runs(Path("runs"))
    path = one / name
    text = path.read_text()
    at = text.index("0.") + 2
    path.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")

    listed = uclearn("runs", "--json")
    assert [row["folder"] for row in listed.lines()] == [str(other)]
    assert f"Left out, since it is damaged: {one}" in listed.err
    for out in ("x.md", "x.html"):
        said = uclearn("report", "--out", out)
        assert said.code == 0
        assert f"Left out, since it is damaged: {one}" in caplog.text  # on the terminal: stderr
        caplog.clear()
        assert str(one) in Path(out).read_text()
        assert "amaged and left out" in Path(out).read_text()
    said = uclearn("resume", "runs")
    assert said.code == 1
    assert f"damaged: {one}" in said.err
    said = uclearn("doctor", "runs", "--data", "nowhere")
    assert said.code == 1
    remedy = {
        "summary.json": "delete summary.json, and `uclearn resume` writes it",
        "config.json": "without config.json it is read from summary.json alone",
        "events.jsonl": "without events.jsonl it is read from summary.json alone",
    }
    told = " ".join(said.out.split())
    assert "its own" in told
    assert remedy[name].split(",")[0] in told

    path.unlink()  # as the doctor said
    if name == "summary.json":
        uclearn("resume", "runs", "--quiet", "--workers", "1")
    assert len(uclearn("runs", "--json").lines()) == 2
    if name == "summary.json":
        assert (
            json.loads(path.read_text())["accuracy_matrix"] == json.loads(text)["accuracy_matrix"]
        )


@pytest.mark.usefixtures("months")
def test_a_damaged_journal_is_refused_and_can_be_had_again(uclearn: Uclearn) -> None:
    teach(uclearn, "january", *FAST)
    journal = Path("m/journal.jsonl")
    sound = journal.read_text()
    journal.write_text(sound.replace('"decision"', '"decisiom"'))
    said = uclearn("status", "m")
    assert (said.code, "Line 2 of m/journal.jsonl is damaged" in said.err) == (1, True)
    said = uclearn("doctor", "m", "--data", "nowhere")
    assert "The checkpoint is sound and holds the journal" in " ".join(said.out.split())
    journal.unlink()
    teach(uclearn, "february")
    begun, update = sound.splitlines()
    assert '"event": "begun"' in begun
    told, _ = update.split(', "checksum"')  # which vouches for the line's place, too
    assert journal.read_text().startswith(f"{told}, ")
