"""Accuracy; uncertainty."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.paper_ucl import paper_ucl
from tests.training.small import small_method, small_tasks
from uclearn.errors import TaskError
from uclearn.methods.contract import Method
from uclearn.networks import mlp
from uclearn.tasks import Task
from uclearn.training import evaluate, predict
from uclearn.training.session import evaluate_all


class Fixed(nn.Module):
    """Gives out its inputs as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.one


def test_accuracy_counts_the_right_ones() -> None:
    from uclearn.tasks import Data

    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, 1.0], [0.0, 3.0]])
    data = Data(logits, torch.tensor([0, 1, 1, 1]))
    assert evaluate(Method(Fixed()), Task("given", 0, data, None, data, 2)) == 0.75


def test_tasks_to_come_are_tried_with_one_head_only() -> None:
    one = evaluate_all(small_method("finetuning", heads=False), small_tasks(heads=False), 1)
    assert not any(math.isnan(score) for score in one)
    method, tasks = small_method("finetuning"), small_tasks()
    method.begin_task(tasks[0])
    several = evaluate_all(method, tasks, 1)
    assert [math.isnan(score) for score in several] == [False, True, True]


def test_a_task_without_test_data_cannot_be_judged() -> None:
    tasks = small_tasks(heads=False)
    bare = Task("bare", 0, tasks[0].train, classes=3)
    with pytest.raises(TaskError, match="Task 'bare' has no test data"):
        evaluate(small_method("finetuning", heads=False), bare)


def test_draws_add_disagreement_and_leave_no_trace() -> None:
    method = paper_ucl(mlp(2, (16,), 3), torch.zeros(1, 2), sigma=0.5)
    x = torch.randn(20, 2)
    sure, unsure = predict(method, x, task=0), predict(method, x, task=0, draws=32)
    assert torch.all(sure.disagreement == 0)
    assert unsure.disagreement.mean() > 0.01
    assert torch.allclose(unsure.probabilities.sum(1), torch.ones(20))
    assert torch.equal(predict(method, x, task=0).probabilities, sure.probabilities)
    entropy = -(unsure.probabilities * unsure.probabilities.log()).sum(1)
    assert torch.allclose(unsure.entropy, entropy)
