"""A real Ray cluster of two machines (two raylets), with real deaths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import own, placed, run, small
from tests.runs.test_job import outcome
from uclearn.errors import SettingError
from uclearn.runs.config import Configuration
from uclearn.runs.engines.ray import RayEngine
from uclearn.runs.grid import run_all
from uclearn.storage.records import find_runs

pytestmark = pytest.mark.ray

OPTIONS = ["--tasks", "2", "--epochs", "40", "--set", "network.hidden=[8]"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two machines with one core each, to which we are connected."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield from _cluster(ray)


def _cluster(ray: Any) -> Iterator[str]:
    from ray.cluster_utils import Cluster

    small_store: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
    machines: Any = Cluster(
        initialize_head=True, head_node_args={**small_store, "include_dashboard": False}
    )
    machines.add_node(**small_store)
    ray.init(address=machines.address, log_to_driver=False, logging_level="ERROR")
    yield str(machines.address)
    ray.shutdown()
    machines.shutdown()


def owner(folder: Path) -> int:
    """The process that makes the run."""
    return int(json.loads((folder / ".lock").read_text())["pid"])


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def same_run(one: Path, other: Path) -> bool:
    events = [(folder / "events.jsonl").read_text() for folder in (one, other)]
    return outcome(one) == outcome(other) and events[0] == events[1]


def test_two_machines_share_the_runs_and_a_killed_worker_costs_nothing(
    cluster: str, tmp_path: Path
) -> None:
    victim, other = small("ucl", plan__epochs=40), small("ewc", plan__epochs=40)
    jobs = placed([victim, other], tmp_path, checkpoint_seconds=0)
    folders = [job.folder for job in jobs]
    told: list[str] = []
    killed: list[int] = []
    machines: set[int] = set()

    def kill(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event == "epoch":
            machines.add(parent(owner(tmp_path / config.folder_name())))
        if config == victim:
            told.append(event)
            if event == "epoch" and details["epoch"] > 1 and not killed:
                killed.append(owner(folders[0]))
                os.kill(killed[0], signal.SIGKILL)

    def careful(config: Configuration, event: str, details: dict[str, Any]) -> None:
        with suppress(FileNotFoundError, ValueError):  # it may end while we look
            kill(config, event, details)

    results = run_all(jobs, on=RayEngine(cluster), observer=careful)
    assert [result.state for result in results] == ["made", "made"]
    assert killed
    assert told.count("retried") >= 1  # a busy machine may lose it again; nothing is lost for good
    assert told.count("evaluation") == 2
    assert len(machines) == 2  # a raylet is the parent of its workers
    for result in results:
        alone = tmp_path / f"{result.config.method} alone"
        assert isinstance(result.config, type(victim))
        run(result.config, alone)
        assert same_run(result.folder, alone)


def compare(address: str, folder: Path) -> subprocess.Popen[str]:
    words = ["compare", "split-digits", "--methods", "ucl,ewc", "--seeds", "1", *OPTIONS]
    where = ["--on", "ray", "--address", address, "--checkpoint-seconds", "0", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "uclearn", *words, *where],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_driver_that_was_killed_picks_up_what_is_done(cluster: str, tmp_path: Path) -> None:
    first = compare(cluster, tmp_path)
    assert first.stdout is not None
    for line in first.stdout:  # until both runs are on their way
        if json.loads(line)["event"] == "epoch" and len(find_runs(tmp_path / "runs")) == 2:
            break
    first.kill()
    first.communicate()
    begun = {place: (place / "config.json").read_text() for place in find_runs(tmp_path / "runs")}
    assert not all((place / "summary.json").exists() for place in begun)
    out, err = compare(cluster, tmp_path).communicate(timeout=600)
    ended = [json.loads(line) for line in out.splitlines()]
    results = [line for line in ended if line["event"] == "result"]
    assert {line["state"] for line in results} <= {"made", "done"}, err
    assert find_runs(tmp_path / "runs") == list(begun)
    for place, config in begun.items():
        assert (place / "config.json").read_text() == config  # gone on with, not begun again
        method = str(json.loads(config)["config"]["method"])
        run(small(method, plan__epochs=40), tmp_path / method, command="")
        events = [(each / "events.jsonl").read_text() for each in (place, tmp_path / method)]
        assert events[0] == events[1]


def test_data_of_ones_own_are_read_by_the_worker(cluster: str, tmp_path: Path) -> None:
    config = own(tmp_path / "data")
    (result,) = run_all(placed([config], tmp_path / "runs"), on=RayEngine(cluster))
    assert result.state == "made", result.message
    run(config, tmp_path / "alone")
    assert same_run(result.folder, tmp_path / "alone")


def test_ctrl_c_saves_on_the_machine_that_makes_the_run(cluster: str, tmp_path: Path) -> None:
    def interrupt(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event == "epoch" and not asked:
            asked.append(event)
            os.kill(os.getpid(), signal.SIGINT)

    asked: list[str] = []
    jobs = placed([small("finetuning", plan__epochs=100_000, seed=s) for s in (0, 1)], tmp_path)
    results = run_all(jobs, workers=1, on=RayEngine(cluster), observer=interrupt)
    assert [result.state for result in results] == ["stopped", "stopped"]
    assert "goes on from there" in results[0].message
    assert results[1].message == "not begun"
    assert (results[0].folder / "checkpoint.safetensors").exists()


def test_a_run_that_fails_is_not_tried_again(cluster: str, tmp_path: Path) -> None:
    told: list[str] = []
    jobs = placed([small("finetuning+coreset", coreset__size=5000)], tmp_path)
    (result,) = run_all(
        jobs, on=RayEngine(cluster), observer=lambda c, event, d: told.append(event)
    )
    assert result.state == "failed"
    assert "`size` must be smaller than the number of training examples" in result.message
    assert [event for event in told if event != "precision"] == ["run_begins", "run_ends"]


def test_what_fits_on_no_machine_is_refused(cluster: str, tmp_path: Path) -> None:
    jobs = placed([small("finetuning")], tmp_path)
    with pytest.raises(SettingError, match=r"`threads` 2 and `gpus` 0 for each run fit on no mach"):
        run_all(jobs, on=RayEngine(cluster, threads=2))
    with pytest.raises(SettingError, match=r"CPUs and GPUs of its machines: 1 and 0, 1 and 0\."):
        run_all(jobs, on=RayEngine(cluster, gpus=1))


def test_no_cluster_at_an_address_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    jobs = placed([small("finetuning")], tmp_path)
    # not by waiting for one, as Ray would for a minute
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("it was not asked first"))
    with pytest.raises(SettingError, match=r"No Ray cluster answers at `address` 127\.0\.0\.1:1:"):
        run_all(jobs, on=RayEngine("127.0.0.1:1"))
    monkeypatch.undo()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SettingError, match=r"The Ray cluster at nonsense cannot be used: Invalid"):
        run_all(jobs, on=RayEngine("nonsense"))


def test_without_ray_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingError, match=r'pip install "uclearn\[cluster\]"'):
        run_all(placed([small("finetuning")], tmp_path), on=RayEngine())
