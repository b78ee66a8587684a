"""What is done about orders that are lost, or whose folders others hold; and which engine is which.

The machines are played by this process, which loses what it is told to lose."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.runs.small import placed, small
from uclearn.errors import SettingError
from uclearn.ranks import Ranks
from uclearn.runs import grid
from uclearn.runs.engines import ENGINES, JobListener, choose
from uclearn.runs.engines.dispatch import Dispatch, RemoteOutcome, located
from uclearn.runs.grid import run_all
from uclearn.runs.job import Job, execute
from uclearn.storage.files import FolderLock


@dataclass
class Here:
    """An engine that makes a run when it is asked whether it is over."""

    lose: int = 0
    patience: float = 0.0
    threads: int = 1
    jobs: dict[int, Job] = field(default_factory=dict)
    most: int = 0
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, jobs: Sequence[Job], at_once: int | None, listener: JobListener) -> None:
        Dispatch(self, listener, retries=2, patience=self.patience).run(jobs, at_once)

    def submit(self, job: Job) -> int:
        number = next(self.numbers)
        self.jobs[number] = job
        return number

    def collect(self, handles: Sequence[int], seconds: float) -> dict[int, RemoteOutcome]:
        self.most = max(self.most, len(handles))
        if self.lose > 0:
            self.lose -= 1
            return {handles[0]: ("lost", "the plug was pulled")}
        return {handles[0]: execute(self.jobs[handles[0]], lambda event, details: None)}

    def cancel(self, handle: int) -> None:
        raise AssertionError("nobody asked for that")


@pytest.mark.parametrize(("losses", "state"), [(2, "made"), (3, "failed")])
def test_a_run_is_ordered_again_as_often_as_allowed(
    losses: int, state: str, tmp_path: Path
) -> None:
    engine = Here(lose=losses)
    (result,) = run_all(placed([small("finetuning")], tmp_path), on=engine)
    assert result.state == state
    assert len(engine.jobs) == 3
    if state == "failed":
        assert result.message == "it was lost 3 times, the last time: the plug was pulled"


@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_a_folder_that_another_holds_is_waited_for_and_then_left(
    patience: float, tmp_path: Path
) -> None:
    config, other = small("finetuning"), small("finetuning", seed=1)
    folder = tmp_path / config.folder_name()
    folder.mkdir(parents=True)
    lock = FolderLock(folder, "uclearn run")
    lock.acquire()
    freed = threading.Timer(2.0, lock.release)
    freed.start()
    results = run_all(placed([config, other], tmp_path), on=Here(patience=patience))
    freed.join()
    assert [result.state for result in results] == ["made" if patience else "busy", "made"]


def test_no_more_are_ordered_at_a_time_than_workers_were_asked_for(tmp_path: Path) -> None:
    configs = [small("finetuning", seed=seed) for seed in range(4)]
    for workers, most in ((2, 2), (None, 4)):
        engine = Here()
        run_all(placed(configs, tmp_path / str(workers)), workers=workers, on=engine)
        assert engine.most == most
    again = Here()
    results = run_all(placed(configs, tmp_path / "2"), on=again)
    assert [result.state for result in results] == ["done"] * 4
    assert not again.jobs


def test_jobs_for_other_machines_name_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UCLEARN_DATA", "our-data")
    job = located(Job(small("finetuning"), Path("runs/one")))
    assert job.folder == tmp_path / "runs" / "one"
    assert job.data == tmp_path / "our-data"


def test_processes_that_learn_one_model_send_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "present", lambda: Ranks(rank=0, size=2))
    with pytest.raises(SettingError, match=r"`on` must be local where 2 processes learn one model"):
        run_all(placed([small("finetuning")], tmp_path), on=Here())


def test_every_engine_has_a_name_and_refuses_what_belongs_to_another() -> None:
    assert [type(choose(name)).__name__ for name in ENGINES] == [
        "LocalEngine",
        "RayEngine",
        "SlurmEngine",
    ]
    assert [choose(name, threads=3).threads for name in ENGINES] == [3, 3, 3]
    with pytest.raises(SettingError, match=r"`on` must be one of local, ray, slurm, got 'dask'"):
        choose("dask")
    with pytest.raises(
        SettingError, match=r"`address` means nothing for `on` slurm: it goes with `on` ray\."
    ):
        choose("slurm", address="here:6379")
    with pytest.raises(SettingError, match=r"it goes with `on` ray or `on` slurm\."):
        choose("local", gpus=1)
    with pytest.raises(SettingError, match=r"`slurm` means nothing for `on` ray"):
        choose("ray", slurm=["partition=gpu"])
