"""`uclearn sweep`, here and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn
from tests.runs.small import OPTIONS
from tests.runs.test_job import outcome
from uclearn.storage.records import find_runs


def test_a_sweep_names_the_best(uclearn: Uclearn) -> None:
    words = ["sweep", "split-digits", "--method", "ewc", "--tasks", "2", *OPTIONS[2:]]
    uclearn(*words, "--grid", "plan.lr=0.01", "--quiet")
    said = uclearn(*words, "--grid", "plan.lr=1e-9,0.01")
    assert said.code == 0
    assert "judged by validation data" in " ".join(said.out.split())
    assert "Best: --set plan.lr=0.01" in said.out
    assert len(find_runs(Path("sweeps"))) == 2
    # of those that learn nothing at all none is the best
    table = uclearn(*words, "--grid", "plan.lr=1e-9,1e-10").out
    assert "Level at the top, 2 that differ by less than 0.1 %:" in table
    assert "Best:" not in table


@pytest.mark.slow
def test_jobs_and_processes_give_the_same_table_and_the_same_folders(uclearn: Uclearn) -> None:
    words = ["sweep", "split-digits", "--method", "ewc", "--grid", "ewc.strength=1,100", "--tasks"]
    words += ["2", *OPTIONS[2:]]
    code, table, _ = uclearn(*words, "--out", "here")
    assert code == 0
    elsewhere = ["--on", "slurm", "--slurm", "cluster=local", "--out", "there"]
    code, same, err = uclearn(*words, *elsewhere)
    assert (code, same) == (0, table), err
    here, there = find_runs(Path("here")), find_runs(Path("there"))
    assert [f.relative_to("here") for f in here] == [f.relative_to("there") for f in there]
    assert [outcome(folder) for folder in here] == [outcome(folder) for folder in there]
