from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs.small import run, small
from uclearn.errors import DataError
from uclearn.methods.registry import METHODS
from uclearn.runs.job import Job
from uclearn.runs.prepare import judged_by_validation, prepare
from uclearn.runs.rl import resolve_rl
from uclearn.runs.supervised import RunConfig
from uclearn.storage.files import FolderLock
from uclearn.storage.records import read_run
from uclearn.tasks.benchmarks import load_tasks
from uclearn.training.session import StoppedError

TIME_LIKE = ("seconds", "peak_memory", "checksum")


def outcome(folder: Path) -> dict[str, Any]:
    """summary.json without what a clock or the system says."""
    document = json.loads((folder / "summary.json").read_text())
    return {key: value for key, value in document.items() if key not in TIME_LIKE}


def test_a_run_leaves_a_summary_with_everything(tmp_path: Path) -> None:
    config = small(seed=4)
    summary = run(config, tmp_path)
    assert summary.config == config.document()
    assert len(summary.accuracy_matrix) == 2
    assert summary.accuracy_matrix[0][1] is None  # no head yet
    last = [value for value in summary.accuracy_matrix[1] if value is not None]
    assert summary.average_accuracy == pytest.approx(sum(last) / 2)
    first = summary.accuracy_matrix[0][0]
    assert first is not None
    assert summary.forgetting == pytest.approx(first - last[0])
    assert summary.seconds > 0
    assert summary.peak_memory is not None
    assert summary.peak_memory > 10**7
    # means of 64-8 and its biases and sigmas, twice; two heads of 8 + 1 by 2; of the 64 inputs that
    # were seen all products and their means; of the 8 features all products
    seen = 64 * 64 + 64 + 8 * 8
    assert summary.parameters_kept == 2 * (64 * 8 + 8 + 8) + 2 * (8 + 1) * 2 + seen
    assert {"uclearn", "torch", "python"} <= set(summary.versions)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, "vcl+coreset", "ucl+replay"])
def test_every_method_runs_and_runs_the_same_again_from_what_is_stored(
    method: str, tmp_path: Path
) -> None:
    first = small(method, "permuted-digits")
    run(first, tmp_path / "first")
    stored = RunConfig.from_document(read_run(tmp_path / "first").config)
    run(stored, tmp_path / "again")
    assert outcome(tmp_path / "again") == outcome(tmp_path / "first")
    events = [(tmp_path / name / "events.jsonl").read_text() for name in ("first", "again")]
    assert events[0] == events[1]


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    matrices = [run(small(seed=s), tmp_path / str(s)).accuracy_matrix for s in (0, 1)]
    assert matrices[0] != matrices[1]


def test_a_run_that_is_done_is_not_made_again(tmp_path: Path) -> None:
    run(small(), tmp_path)
    before = (tmp_path / "summary.json").read_bytes()
    told: list[str] = []
    run(small(), tmp_path, observer=lambda event, details: told.append(event))
    assert told == []
    assert (tmp_path / "summary.json").read_bytes() == before


def test_a_run_stopped_anywhere_ends_as_one_that_never_was(tmp_path: Path) -> None:
    config = small(plan__epochs=3, plan__batch_size=16)
    run(config, tmp_path / "whole")
    stops = 0
    for after in (1, 4, 9):  # saved after each step, stopped after so many

        def stop(event: str, details: dict[str, Any], left: list[int] = [after]) -> None:  # noqa: B006
            left[0] -= event == "saved"
            if left[0] <= 0:
                raise StoppedError("enough")

        with pytest.raises(StoppedError):
            run(config, tmp_path / "parts", observer=stop, checkpoint_seconds=0)
        stops += 1
    run(config, tmp_path / "parts")
    assert stops == 3
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    events = [(tmp_path / name / "events.jsonl").read_text() for name in ("whole", "parts")]
    assert events[0] == events[1]


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    run(small(), tmp_path)
    with pytest.raises(DataError, match=r"`config.seed` is 0 there and 1 here"):
        run(small(seed=1), tmp_path)


def test_a_note_worded_differently_is_no_other_run(tmp_path: Path) -> None:
    config = small()
    run(config, tmp_path)
    worded = RunConfig.from_document(config.document() | {"changed": []})
    assert run(worded, tmp_path).config["changed"] == list(config.changed)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    with FolderLock(tmp_path, "somebody"), pytest.raises(OSError, match=r"in use by .*somebody"):
        run(small(), tmp_path)


def test_uncertainties_of_all_nodes_are_recorded_after_each_task(tmp_path: Path) -> None:
    run(small("ucl+replay", "permuted-digits", ucl__ratio=0.5), tmp_path)
    told = [e for e in read_run(tmp_path).events if e["event"] == "nodes"]
    assert [event["task"] for event in told] == [0, 1]
    layers = told[-1]["layers"]
    assert [len(layer["sigma"]) for layer in layers.values()] == [8, 10]
    # sigma_init^2 = ratio 2/n (supplement 2): n = 64 and 8 inputs
    starts = [layer["sigma_init"] for layer in layers.values()]
    assert starts == pytest.approx([(1 / 64) ** 0.5, (1 / 8) ** 0.5], rel=1e-3)


def test_nodes_that_tasks_use_are_recorded_for_hat_and_nothing_for_others(tmp_path: Path) -> None:
    run(small("hat"), tmp_path / "hat")
    told = [e for e in read_run(tmp_path / "hat").events if e["event"] == "used_nodes"]
    assert [len(event["layers"]["trunk.0"]) for event in told] == [8, 8]
    run(small("ewc", preset="best"), tmp_path / "ewc")
    names = {event["event"] for event in read_run(tmp_path / "ewc").events}
    assert names == {"epoch", "evaluation"}


def test_tuning_never_sees_the_test_data() -> None:
    tasks = load_tasks("split-digits", seed=0)
    judged = judged_by_validation(tasks, seed=0)
    for task, own in zip(tasks, judged, strict=True):
        assert task.test is not None
        assert own.test is not None
        assert len(own.train) + len(own.test) == len(task.train)
        tested = {tuple(x.tolist()) for x in task.test.batch(torch.arange(len(task.test))).inputs}
        seen = own.test.batch(torch.arange(len(own.test))).inputs
        originals = {
            tuple(x.tolist()) for x in task.train.batch(torch.arange(len(task.train))).inputs
        }
        assert all(tuple(x.tolist()) in originals for x in seen)
        assert not tested & {tuple(x.tolist()) for x in seen}
    config = small(data__judge="validation")
    ends = [task.test for task in prepare(config).tasks]
    assert [len(end) for end in ends if end is not None] == [
        len(own.test) for own in judged[:2] if own.test is not None
    ]


def test_a_job_travels_as_json_and_as_a_pickle(tmp_path: Path) -> None:
    acting = resolve_rl("classic", "ewc", seed=2)
    for config in (small("vcl+coreset", seed=3), acting):
        job = Job(config, tmp_path / "run", data=tmp_path, threads=2, command="uclearn run")
        assert Job.from_json(job.to_json()) == job
        assert pickle.loads(pickle.dumps(job)) == job
        assert job.config.kind_of_run().config is type(config)
