"""`uclearn runs`."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.cli.terminal import Uclearn, run_small


def test_runs_are_listed_chosen_and_exported(uclearn: Uclearn) -> None:
    for method in ("ewc", "finetuning"):
        run_small(uclearn, "--method", method, "--quiet")
    assert "2 runs in runs" in uclearn("runs").out
    (chosen,) = uclearn("runs", "--method", "ewc", "--json").lines()
    assert chosen["method"] == "ewc"
    assert chosen["state"] == "complete"
    assert uclearn("runs", "--state", "open", "--json").out == ""
    uclearn("runs", "--csv", "runs.csv")
    with Path("runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"ewc", "finetuning"}
    assert all(0 <= float(row["average_accuracy"]) <= 1 for row in rows)
    assert "folder,benchmark" in uclearn("runs", "--csv", "-").out


def test_a_fresh_folder_says_how_to_begin(uclearn: Uclearn) -> None:
    said = uclearn("runs")
    assert said.code == 0
    assert "No runs yet. The first: uclearn compare" in said.err
    assert uclearn("runs", "elsewhere").code == 1  # a folder that somebody named
