"""Logs hold exactly what the records say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from uclearn.runs.tensorboard import export
from uclearn.storage.recorder import open_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    with open_run(tmp_path / "runs" / "one", {"method": "ucl"}, "test") as run:
        run.append("epoch", {"task": 0, "epoch": 0, "loss": 0.75, "validation_loss": 0.5})
        run.append("evaluation", {"task": 0, "scores": [0.5, None]})
        run.append("epoch", {"task": 1, "epoch": 0, "loss": 0.25})
        run.append("evaluation", {"task": 1, "scores": [0.25, 0.75]})
        run.append("evaluation", {"task": 2, "scores": [None, None]})  # joint training that waits
    return tmp_path / "runs"


def test_logs_say_what_the_records_say(runs: Path, tmp_path: Path) -> None:
    (log,) = export([runs], tmp_path / "logs")
    assert log == tmp_path / "logs" / "one"
    read = EventAccumulator(str(log))
    read.Reload()
    told = {
        tag: [(event.step, event.value) for event in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }
    assert told == {
        "loss": [(0, 0.75), (1, 0.25)],
        "validation_loss": [(0, 0.5)],
        "score/mean of learned tasks": [(0, 0.5), (1, 0.5)],
        "score/task 0": [(0, 0.5), (1, 0.25)],
        "score/task 1": [(1, 0.75)],
    }
