"""Jobs by submitit, with its executor for one machine in the place of Slurm."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import own, placed, run, small
from tests.runs.test_job import outcome
from uclearn.errors import SettingError
from uclearn.runs.config import Configuration
from uclearn.runs.engines.slurm import SlurmEngine, parse_slurm
from uclearn.runs.grid import run_all

HERE = SlurmEngine(parse_slurm(["cluster=local", "partition=any", "timeout_min=5"]))


@pytest.mark.slow
def test_a_killed_job_is_queued_again_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    victim = small("ucl", plan__epochs=40)
    told: list[str] = []

    def kill(config: Configuration, event: str, details: dict[str, Any]) -> None:
        told.append(event)
        if event == "epoch" and "killed" not in told:
            lock = tmp_path / "runs" / victim.folder_name() / ".lock"
            os.kill(json.loads(lock.read_text())["pid"], signal.SIGKILL)
            told.append("killed")

    jobs = placed([victim], tmp_path / "runs", checkpoint_seconds=0)
    (result,) = run_all(jobs, on=HERE, observer=kill)
    assert result.state == "made"
    assert told.count("retried") == 1
    run(victim, tmp_path / "alone")
    assert outcome(result.folder) == outcome(tmp_path / "alone")
    events = [(f / "events.jsonl").read_text() for f in (result.folder, tmp_path / "alone")]
    assert events[0] == events[1]
    assert list((tmp_path / "runs" / "split-digits" / ".submitit").glob("*_log.out"))


@pytest.mark.slow
def test_data_of_ones_own_are_read_by_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    config = own(tmp_path / "data")
    (result,) = run_all(placed([config], tmp_path / "runs"), on=HERE)
    assert result.state == "made", result.message
    run(config, tmp_path / "alone")
    assert outcome(result.folder) == outcome(tmp_path / "alone")


def test_without_slurm_or_with_settings_it_does_not_know_it_is_refused(tmp_path: Path) -> None:
    jobs = placed([small("finetuning")], tmp_path)
    with pytest.raises(SettingError, match=r'Could not detect "srun"'):
        run_all(jobs, on=SlurmEngine())
    with pytest.raises(SettingError, match=r"Unknown argument 'particion' for executor 'slurm'"):
        run_all(jobs, on=SlurmEngine({"cluster": "local", "particion": "gpu"}))
    with pytest.raises(SettingError, match=r"`gpus` must be a whole number for Slurm, got 0\.5"):
        run_all(jobs, on=SlurmEngine(gpus=0.5))
    with pytest.raises(SettingError, match=r"`slurm` cpus_per_task cannot be set: --threads"):
        parse_slurm(["cpus_per_task=2"])


def test_without_submitit_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(SettingError, match=r'pip install "uclearn\[cluster\]"'):
        run_all(placed([small("finetuning")], tmp_path), on=SlurmEngine())
