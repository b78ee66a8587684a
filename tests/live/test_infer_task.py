"""The least uncertain head is taken, by what share of its largest possible entropy it has."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch

from benchmarks.task_inference import RECORDS, SEEDS, SETTINGS, table
from tests.live.months import PLAN
from uclearn.live.gate import Gate
from uclearn.live.infer_task import inference_accuracy, least_uncertain, relative_entropy
from uclearn.live.learner import Learner
from uclearn.networks import mlp
from uclearn.tasks import Data
from uclearn.training.session import Prediction


def prediction(rows: list[list[float]], task: int) -> Prediction:
    p = torch.tensor(rows)
    entropy = torch.special.entr(p).sum(1)
    return Prediction(p, entropy, torch.zeros(len(p)), torch.full((len(p),), task))


def test_shares_of_entropy_are_compared_not_entropies() -> None:
    """Of ten classes, all but undecided between two: less uncertain by share than a coin."""
    ten = prediction([[0.5, 0.5] + [0.0] * 8], 0)
    two = prediction([[0.6, 0.4]], 1)
    assert ten.entropy > two.entropy
    assert relative_entropy(ten) == pytest.approx(math.log(2) / math.log(10))
    chosen = least_uncertain([ten, two])
    assert chosen.task.tolist() == [0]
    assert chosen.probabilities.shape == (1, 10)
    assert least_uncertain([two, ten]).probabilities[0, :2].tolist() == [0.5, 0.5]


def test_a_head_of_one_class_knows_nothing() -> None:
    assert least_uncertain([prediction([[1.0]], 0), prediction([[0.6, 0.4]], 1)]).task.tolist() == [
        1
    ]


def test_a_batch_is_decided_together() -> None:
    first = prediction([[0.99, 0.01], [0.5, 0.5], [0.5, 0.5]], 0)
    second = prediction([[0.7, 0.3], [0.9, 0.1], [0.9, 0.1]], 1)
    assert least_uncertain([first, second]).task.tolist() == [0, 1, 1]
    assert least_uncertain([first, second], together=True).task.tolist() == [1, 1, 1]


def places(task: int, count: int = 160) -> tuple[torch.Tensor, torch.Tensor]:
    """Each task lives in two corners of its own plane, far from the others'."""
    stream = torch.Generator().manual_seed(task)
    y = torch.arange(count) % 2
    x = 0.3 * torch.randn(count, 6, generator=stream)
    x[:, 2 * task] += 3.0 * (2 * y - 1)
    return x, y


@pytest.fixture(scope="module")
def ours() -> Learner:
    learner = Learner(mlp(6, (32,), None), "ucl", plan=PLAN)
    for task in range(3):
        learner.learn(places(task), f"task {task}", gate=Gate(max_drop=0.99, canary=40))
    return learner


def test_tasks_that_look_different_are_told_apart(ours: Learner) -> None:
    for task in range(3):
        x, y = places(task)
        answer = ours.predict(x)
        found = torch.tensor([name == f"task {task}" for name in answer.tasks])
        assert found.float().mean() > 0.8
        assert (answer.labels == y)[found].float().mean() > 0.95
        together = ours.predict(x[:16], together=True)
        assert set(together.tasks) == {f"task {task}"}


def test_the_measure_counts_what_predict_answers(ours: Learner) -> None:
    sets = [Data(*places(task), task=task) for task in range(3)]
    found = inference_accuracy(ours.method, sets)
    right, labels = [], []
    for task, data in enumerate(sets):
        answer = ours.predict(data.inputs)
        hit = torch.tensor([name == f"task {task}" for name in answer.tasks])
        right.append(float(hit.double().mean()))
        labels.append(float((hit & (answer.labels == data.targets)).double().mean()))
    assert found.task == pytest.approx(sum(right) / 3)
    assert found.label == pytest.approx(sum(labels) / 3)
    assert found.label <= found.task
    assert found.batch >= found.task


def test_the_numbers_in_the_documentation_are_those_that_were_measured() -> None:
    records = json.loads(RECORDS.read_text())
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    assert table(records) in page
    assert {(one["method"], one["seed"]) for one in records} == set(product(SETTINGS, SEEDS))
