"""Runs that are shown elsewhere: the numbers that arrive there are those of the record."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import placed, small
from uclearn.errors import SettingError
from uclearn.runs.grid import run_all
from uclearn.runs.tensorboard import Told, scalars
from uclearn.runs.track import TRACKERS, tracking
from uclearn.storage.records import read_run

Found = dict[str, list[float]]


def needs(package: str) -> pytest.MarkDecorator:
    absent = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"{package} is not installed (extra [track])")


def track(name: str, out: Path) -> tuple[Found, Any]:
    """Make a small run, tracked; what its record says."""
    problems: list[str] = []
    (job,) = placed([small("ucl")], out)
    with tracking(name, out, problems.append) as observer:
        (result,) = run_all([job], observer=observer)
    assert problems == []
    assert result.state == "made"
    recorded: Found = {}
    for key, value, _ in scalars(read_run(job.folder)):
        recorded.setdefault(key, []).append(value)
    return recorded, job


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recorded, job = track("tensorboard", tmp_path)
    log: Any = EventAccumulator(str(tmp_path / "tensorboard" / job.config.folder_name()))
    log.Reload()
    shown = {key: [e.value for e in log.Scalars(key)] for key in log.Tags()["scalars"]}
    assert shown.keys() == recorded.keys()
    for key, values in recorded.items():
        assert shown[key] == pytest.approx(values, rel=1e-6)


@needs("mlflow")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_in_its_local_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    recorded, _ = track("mlflow", tmp_path)
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("split-digits")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "ucl"
    for key, values in recorded.items():
        history = client.get_metric_history(run.info.run_id, key)
        assert [m.value for m in sorted(history, key=lambda m: m.step)] == pytest.approx(values)


def whole(log: Path, end: bytes) -> bytes:
    """What is in a file once `end` is: whoever writes it may say too early that it is done."""
    for _ in range(600):
        if end in (content := log.read_bytes()):
            return content
        time.sleep(0.05)
    raise AssertionError(f"{log} never held {end!r}, only {content!r}")


@needs("wandb")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    track("wandb", tmp_path)
    (log,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"split-digits" in whole(log, b"score/mean of learned tasks")


@needs("aim")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_aim_in_its_local_store(tmp_path: Path) -> None:
    track("aim", tmp_path)
    store = tmp_path / ".aim"
    assert b"split-digits" in (store / "run_metadata.sqlite").read_bytes()
    content = b"".join(file.read_bytes() for file in (store / "seqs").rglob("*") if file.is_file())
    assert b"score/mean of learned tasks" in content


@pytest.mark.rl
def test_rewards_are_tracked_by_the_steps_in_environments(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    from tests.runs.test_rl import quick

    found: list[Told] = []

    class Kept:
        def __init__(self, config: object, out: Path) -> None:
            pass

        def log(self, told: Told) -> None:
            found.append(told)

        def end(self, state: str) -> None:
            found.append(Told({state: 1.0}, 0, ""))

    (job,) = placed([quick("ewc")], tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TRACKERS, "tensorboard", Kept)
        with tracking("tensorboard", tmp_path, pytest.fail) as observer:
            run_all([job], observer=observer)
    assert found.pop().values == {"made": 1.0}
    passed_on = [(name, value, t.step) for t in found for name, value in t.values.items()]
    assert passed_on == scalars(read_run(job.folder))
    names = {name for name, _, _ in passed_on}
    assert {"policy_loss", "value_loss", "return/task 0", "return/task 1"} <= names
    assert {t.axis for t in found} == {"steps"}


def test_a_tracker_that_fails_is_named_and_the_runs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(config: object, out: Path) -> Any:
        raise OSError("no such server")

    monkeypatch.setitem(TRACKERS, "tensorboard", broken)
    problems: list[str] = []
    with tracking("tensorboard", tmp_path, problems.append) as observer:
        (result,) = run_all(placed([small("finetuning")], tmp_path), observer=observer)
    assert result.state == "made"
    assert problems == ["tensorboard tracks no more: OSError: no such server"]


def test_a_tracker_that_there_is_not(tmp_path: Path) -> None:
    with (
        pytest.raises(SettingError, match=r"`--track` must be one of tensorboard, mlflow"),
        tracking("nix", tmp_path, print),
    ):
        pass
