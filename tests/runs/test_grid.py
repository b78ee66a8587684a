from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import placed, run, small
from tests.runs.test_job import outcome
from uclearn.runs import grid
from uclearn.runs.config import Configuration
from uclearn.runs.grid import run_all
from uclearn.runs.job import Job
from uclearn.runs.resolve import resolve
from uclearn.storage.files import FolderLock


@pytest.mark.slow
def test_a_run_that_fails_or_dies_stops_no_other_and_is_reported(tmp_path: Path) -> None:
    too_large = small("finetuning+coreset", coreset__size=5000)
    slow = small("finetuning", seed=1, plan__epochs=100_000)
    jobs = placed([too_large, slow, small("ewc")], tmp_path)

    def kill(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if config == slow and event == "step":
            lock = tmp_path / slow.folder_name() / ".lock"
            own = int(lock.read_text().partition('"pid": ')[2].partition(",")[0])
            assert own != os.getpid()
            os.kill(own, signal.SIGKILL)

    results = run_all(jobs, workers=2, observer=kill)
    assert [result.state for result in results] == ["failed", "failed", "made"]
    assert "`size` must be smaller than the number of training examples" in results[0].message
    assert results[1].message.startswith("its process was killed by signal 9")
    assert [result.summary() is None for result in results] == [True, True, False]


@pytest.mark.slow
def test_what_a_process_says_when_it_dies_at_its_start_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Job, "to_json", lambda job: "{}")  # says nothing
    results = run_all(placed([small("ewc"), small("ewc", seed=1)], tmp_path), workers=2)
    told = "its process ended with code 1, saying: KeyError: 'data'"
    assert [(each.state, each.message) for each in results] == [("failed", told)] * 2
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_run_without_its_data_stops_no_other(tmp_path: Path) -> None:
    configs = [resolve("split-mnist", "finetuning"), small("finetuning")]
    results = run_all(placed(configs, tmp_path, data=tmp_path / "nowhere"), workers=1)
    assert [result.state for result in results] == ["failed", "made"]
    assert "The data set mnist is not complete" in results[0].message


@pytest.mark.slow
def test_only_what_is_missing_is_made_and_is_what_a_run_alone_makes(tmp_path: Path) -> None:
    configs = [small("finetuning", seed=seed) for seed in range(3)]
    jobs = placed(configs, tmp_path / "grid")
    first = configs[0]
    run(first, tmp_path / "grid" / first.folder_name())
    results = run_all(jobs, workers=2)
    assert [result.state for result in results] == ["done", "made", "made"]
    run(configs[1], tmp_path / "alone")
    assert outcome(results[1].folder) == outcome(tmp_path / "alone")
    assert [result.state for result in run_all(jobs)] == ["done"] * 3


def test_a_run_that_another_process_makes_is_passed_over(tmp_path: Path) -> None:
    config = small("finetuning")
    folder = tmp_path / config.folder_name()
    folder.mkdir(parents=True)
    with FolderLock(folder, "uclearn run"):
        (result,) = run_all(placed([config], tmp_path))
    assert result.state == "busy"
    assert result.summary() is None


def test_damaged_files_of_one_run_do_not_stop_the_others(tmp_path: Path) -> None:
    good, bad = small("finetuning"), small("finetuning", seed=1)
    folder = tmp_path / bad.folder_name()
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text("{")
    states = [result.state for result in run_all(placed([bad, good], tmp_path))]
    assert states == ["failed", "made"]


def test_a_mistake_of_ours_is_reported_with_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("nobody thought of this")

    monkeypatch.setattr(sys.modules["uclearn.runs.job"], "run", broken)
    (result,) = run_all(placed([small()], tmp_path))
    assert result.state == "failed"
    assert result.message.startswith("ZeroDivisionError: nobody thought of this (see ")
    assert "in broken" in (result.folder / "error.txt").read_text()


def test_cores_are_divided_fairly_and_never_more_threads_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grid, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [grid.threads_for(workers) for workers in (1, 2, 3, 8, 20)] == [8, 4, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [grid.threads_for(workers) for workers in (1, 2, 3)] == [3, 3, 2]
