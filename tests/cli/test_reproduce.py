"""`uclearn reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn
from uclearn.paper.curves import Curve, Study
from uclearn.paper.studies import STUDIES
from uclearn.storage.records import find_runs, read_run


def test_figures_without_their_data_are_left_out_and_said(uclearn: Uclearn) -> None:
    said = uclearn("reproduce", "figure-4", "--data", "nowhere", "--scale", "0.01")
    assert said.code == 1
    assert "Left out: permuted-mnist" in said.err
    assert "SCALED to 0.01" in said.out


@pytest.mark.slow
def test_a_study_of_the_paper_is_made_elsewhere(
    uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"network.hidden": [8], "plan.epochs": 1}
    curves = tuple(Curve("split-digits", name, small, 1, "best") for name in ("ewc", "finetuning"))
    monkeypatch.setitem(STUDIES, "figure-0", Study("Small", curves))
    elsewhere = ["--on", "slurm", "--slurm", "cluster=local"]
    code, _, err = uclearn("reproduce", "figure-0", *elsewhere, "--quiet")
    assert code == 0, err
    made = [read_run(folder) for folder in find_runs(Path("runs"))]
    assert sorted(run.config["method"] for run in made) == ["ewc", "finetuning"]
    assert list(Path("runs").rglob(".submitit/*"))  # by jobs, not by processes of the command
