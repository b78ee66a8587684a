"""Folders that version 0.1.0 wrote are gone on with, and end as they would have ended with it.

In `version_0_1_0`, by version 0.1.0 (commit 25713d2, torch 2.13.0 for CPUs, one thread, x86-64):

- `supervised`: `uclearn run split-digits --method ucl --epochs 6 --tasks 3 --set
  network.hidden=[6] --set plan.patience=1`, killed with SIGKILL in the second task;
- `rl`: `uclearn rl run classic --method ewc --steps 256` with a policy of 8 nodes and short
  rollouts, killed with SIGKILL in the sixth of eight iterations of the first task;
- `supervised.events.jsonl`, `rl.events.jsonl`: what the same commands wrote undisturbed;
- `live`: a model in use after `uclearn learn` with two months of data; `live.march.csv`: the third
  month; `live.answers-...csv`: its answers to that month before and after it was learned.

Numbers are compared to three digits, since other processors and versions of torch round otherwise.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from uclearn.cli.app import main
from uclearn.storage.sealed import read_sealed_lines

WRITTEN = Path(__file__).with_name("version_0_1_0")
TypeIn = Callable[..., None]


@pytest.fixture
def uclearn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TypeIn:
    """Type a command that ends well, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert not leaving.value.code

    return typed


def lines(path: Path) -> list[dict[str, Any]]:
    return [{**line, "schema": 1} for line in read_sealed_lines(path)]  # that of then


def assert_alike(found: Any, wanted: Any, where: str = "") -> None:
    """The same keys, words and lengths, and the same numbers to three digits."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            assert_alike(found[key], wanted[key], f"{where} {key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_alike(one, other, f"{where} {number}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=2e-3, abs=2e-3), where
    else:
        assert found == wanted, where


@pytest.mark.parametrize("kind", ["supervised", pytest.param("rl", marks=pytest.mark.rl)])
def test_a_run_that_was_killed_goes_on(kind: str, uclearn: TypeIn, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "seed-0"
    shutil.copytree(WRITTEN / kind, folder)
    wanted = lines(WRITTEN / f"{kind}.events.jsonl")
    done = lines(folder / "events.jsonl")
    assert 0 < len(done) < len(wanted)

    uclearn("resume", "runs", "--quiet")
    found = lines(folder / "events.jsonl")
    # what lay beyond the checkpoint is made anew, with the digits of this machine
    assert_alike(found[: len(done)], done)
    assert_alike(found, wanted)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["config"] == json.loads((folder / "config.json").read_text())["config"]


def test_a_model_in_use_answers_and_learns_on(uclearn: TypeIn, tmp_path: Path) -> None:
    shutil.copytree(WRITTEN / "live", tmp_path / "model")
    shutil.copy(WRITTEN / "live.march.csv", tmp_path / "march.csv")
    before = (tmp_path / "model" / "journal.jsonl").read_text()
    data = ("--data", "march.csv", "--label", "fault")

    uclearn("predict", "model", *data, "--out", "answers.csv")
    assert_answers(tmp_path / "answers.csv", WRITTEN / "live.answers-before-march.csv")
    uclearn("learn", "model", *data, "--name", "march", "--max-drop", "0.5")
    uclearn("predict", "model", *data, "--out", "answers.csv")
    assert_answers(tmp_path / "answers.csv", WRITTEN / "live.answers-after-march.csv")

    journal = (tmp_path / "model" / "journal.jsonl").read_text()
    assert journal.startswith(before)
    lines = [json.loads(line) for line in journal.splitlines()]
    assert [(line["event"], line["name"]) for line in lines] == [
        *(("update", "january"), ("update", "february")),
        *(("begun", "march"), ("update", "march")),  # 0.1.0 did not say when it began
    ]


def assert_answers(found: Path, wanted: Path) -> None:
    """The tasks and labels of nearly all examples, and the probabilities to two digits: an example
    on the border between two labels may fall on either side of it."""
    rows = [list(csv.DictReader(path.read_text().splitlines())) for path in (found, wanted)]
    same = [
        (one["task"], one["label"]) == (other["task"], other["label"])
        and float(one["probability"]) == pytest.approx(float(other["probability"]), abs=0.01)
        for one, other in zip(*rows, strict=True)
    ]
    assert len(same) == 80
    assert sum(same) >= 78
