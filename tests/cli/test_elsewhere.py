"""The commands that look for settings, and those that have runs made elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.small import OPTIONS
from tests.runs.test_job import outcome
from uclearn.cli.app import main
from uclearn.paper.studies import STUDIES, Curve, Study
from uclearn.storage.records import find_runs, read_run

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def uclearn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Typed:
    """Type a command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        shown = capfd.readouterr()
        return int(leaving.value.code or 0), shown.out, shown.err

    return typed


@pytest.mark.slow
def test_jobs_and_processes_give_the_same_table_and_the_same_folders(uclearn: Typed) -> None:
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


@pytest.mark.slow
def test_what_tuning_finds_is_used_by_run_and_compare(uclearn: Typed) -> None:
    words = ["tune", "split-digits", "--method", "ewc", "--trials", "2", "--tasks", "1"]
    code, out, _ = uclearn(*words, *OPTIONS[2:], "--sampler", "random")
    assert code == 0
    assert "ewc on split-digits, judged by validation data" in out
    found = "tuning/split-digits-ewc.toml"
    assert f"uclearn run --config {found}" in out
    _, lines, _ = uclearn(*words, *OPTIONS[2:], "--json")
    best = json.loads(lines.splitlines()[0])
    assert (best["event"], best["state"]) == ("trial", "complete")
    assert uclearn("run", "--config", found, "--tasks", "2", "--quiet")[0] == 0
    compare = ["compare", "split-digits", "--config", found, "--seeds", "1", "--tasks", "2", "-q"]
    assert uclearn(*compare, "--methods", "finetuning,ewc")[0] == 0
    configs = [read_run(folder).config for folder in find_runs(Path("runs"))]
    assert sorted(config["method"] for config in configs) == ["ewc", "finetuning"]
    for config in configs:
        assert config["data"]["judge"] == "test"
        assert config["network"]["hidden"] == [8]
        if config["method"] == "ewc":
            assert config["settings"]["ewc"]["strength"] == best["values"]["ewc.strength"]
    code, _, err = uclearn(*compare, "--methods", "finetuning,si")
    assert code == 1
    assert "The file is for `method` ewc, which is not compared: name it too." in err


def test_tuning_without_any_success_says_why(uclearn: Typed) -> None:
    words = ["tune", "split-digits", "--method", "ewc", "--trials", "2", *OPTIONS[2:]]
    code, _, err = uclearn(*words, "--space", "ewc.strength=-2,-1", "--quiet")
    assert code == 1
    assert err.startswith("Error: No trial of ewc succeeded: `strength` must")


@pytest.mark.slow
def test_a_study_of_the_paper_is_made_elsewhere(
    uclearn: Typed, monkeypatch: pytest.MonkeyPatch
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
