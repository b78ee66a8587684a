"""Folders that version 0.1 wrote load, answer as they did then, and go on learning as they would.

Written by `Learner.save` of version 0.1 after two updates of 40 examples each, by `month(0)` and
`month(1)` below, of a network with 6 hidden nodes; `answers.json` holds what that version answered
(the probability of class 0), before and after learning `month(2)` from the loaded folder.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.live.months import month
from uclearn.live.folder import MARKER_NAME, VERSION
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
from uclearn.storage.sealed import read_sealed

FOLDERS = Path(__file__).parent / "folders-0.1"
ANSWERS = json.loads((FOLDERS / "answers.json").read_text(encoding="utf-8"))


def answers(learner: Learner) -> dict[str, list[float]]:
    """By task, the probability of class 0 of six examples."""
    x, _ = month(9, 6)
    return {
        task: learner.predict(x, task=task).probabilities[:, 0].tolist() for task in learner.tasks
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_a_folder_of_version_0_1_answers_and_goes_on(name: str, tmp_path: Path) -> None:
    told = ANSWERS[name]
    shutil.copytree(FOLDERS / name, tmp_path / name)
    with Learner.open(tmp_path / name) as learner:
        assert list(learner.tasks) == ["month 0", "month 1"]
        _require_close(answers(learner), told["before"])
        update = learner.learn(month(2, 40), "month 2", gate=Gate(max_drop=0.99, canary=8))
        assert update.decision == "accepted"
        # what this one goes on to depends on how a processor rounds
        rounds = name == "lwf-heads"
        assert update.loss == pytest.approx(told["loss"], abs=2e-4 if rounds else 1e-5)
        _require_close(answers(learner), told["after"], 0.1 if rounds else 1e-5)
    assert len(Learner.load(tmp_path / name).journal) == 3
    # version 0.1 could not read it any more, and is told so
    assert read_sealed(tmp_path / name / MARKER_NAME)["version"] == VERSION


def _require_close(
    found: dict[str, list[float]], told: dict[str, list[float]], apart: float = 1e-5
) -> None:
    assert found.keys() == told.keys()
    for task, numbers in told.items():
        torch.testing.assert_close(
            torch.tensor(found[task]), torch.tensor(numbers), rtol=0.0, atol=apart
        )
