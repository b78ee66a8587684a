"""A learner's story as a run that the commands read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from uclearn.errors import TaskError
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
from uclearn.networks import mlp
from uclearn.storage.records import find_runs, read_run
from uclearn.training import Plan


def teach(learner: Learner, *names: str, gate: Gate | None) -> None:
    draw = torch.Generator().manual_seed(len(learner.tasks))
    for name in names:
        x = torch.randn(60, 3, generator=draw)
        learner.learn((x, (x[:, 0] > 0).long()), name=name, gate=gate)


def learner() -> Learner:
    return Learner(mlp(3, (8,), None), plan=Plan(epochs=2, batch_size=8, lr=0.01))


def test_the_record_says_what_the_journal_does_and_grows_with_it(tmp_path: Path) -> None:
    one, gate = learner(), Gate(max_drop=0.9)
    teach(one, "january", "february", gate=gate)
    folder = one.record(tmp_path, "machines")
    assert find_runs(tmp_path) == [folder]
    summary = read_run(folder).summary
    assert summary is not None
    old, new = one.journal[1]["compared"][0]["after"], one.journal[1]["accuracy"]
    assert list(summary.accuracy_matrix[1]) == [old, new]
    assert summary.average_accuracy == pytest.approx((old + new) / 2)
    teach(one, "march", gate=gate)
    assert one.record(tmp_path, "machines") == folder
    again = read_run(folder).summary
    assert again is not None
    assert again.extra["task_names"] == ["january", "february", "march"]
    assert len(again.accuracy_matrix) == 3


def test_without_canaries_there_is_nothing_to_record(tmp_path: Path) -> None:
    one = learner()
    teach(one, "january", gate=None)
    with pytest.raises(TaskError, match="'january' had no examples set apart"):
        one.record(tmp_path)
    assert not list(tmp_path.iterdir())
