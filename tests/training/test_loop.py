"""The order of a method's words, and that the loop adds nothing of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.training.small import small_method, small_plan, small_tasks
from uclearn.errors import TaskError
from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import cross_entropy
from uclearn.networks import mlp
from uclearn.tasks import Data, Task, TaskSequence, iterate
from uclearn.tasks.data import generator
from uclearn.training import Plan, learn
from uclearn.training.loop import train_step


class Diary(Method):
    """Writes down every word it hears."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.heard: list[str] = []
        self.steps: list[Step] = []

    def begin_task(self, task: Task) -> Task:
        self.heard.append("begin_task")
        return super().begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        self.heard.append("parameter_groups")
        return super().parameter_groups(lr)

    def begin_step(self, step: Step | None = None, **given: Any) -> None:
        self.heard.append("begin_step")
        assert step is not None
        self.steps.append(step)

    def penalty(self, step: Step | None = None, **given: Any) -> Tensor:
        self.heard.append("penalty")
        return super().penalty(step)

    def adjust_gradients(self, step: Step | None = None, **given: Any) -> None:
        self.heard.append("adjust_gradients")
        assert all(p.grad is not None for p in self.model.parameters())

    def end_step(self, step: Step | None = None, **given: Any) -> None:
        self.heard.append("end_step")

    def end_task(self, task: Task | None = None, losses: Any = None, **given: Any) -> None:
        self.heard.append("end_task")
        assert task is not None
        total = sum(len(batch) for batch in losses())
        assert total == len(task.train)

    @contextmanager
    def inference(self, task: int | None = None) -> Iterator[nn.Module]:
        self.heard.append("inference")
        with super().inference(task) as network:
            yield network


def test_the_words_come_in_the_order_of_the_contract() -> None:
    method = Diary(mlp(2, (4,), 3))
    learn(method, small_tasks(heads=False, tasks=1, count=32), Plan(epochs=1, batch_size=16))
    step = ["begin_step", "penalty", "adjust_gradients", "end_step"]
    assert method.heard == [
        "inference",  # the untrained network, for forward transfer
        *["begin_task", "parameter_groups", *step, *step, "end_task"],
        "inference",
    ]


def test_a_step_says_where_it_stands() -> None:
    method = Diary(mlp(2, (4,), 3))
    learn(method, small_tasks(heads=False, tasks=1, count=40), Plan(epochs=1, batch_size=16))
    assert [step.batch_size for step in method.steps] == [16, 16, 8]
    assert [step.progress for step in method.steps] == [0, 1 / 3, 2 / 3]
    assert {step.examples for step in method.steps} == {40}


def test_fine_tuning_here_is_a_bare_loop_to_the_bit() -> None:
    tasks = small_tasks(heads=False)
    network = mlp(2, (8,), 3, dropout=0.3)
    bare = copy.deepcopy(network).train()
    plan = small_plan(patience=None, clip_norm=0.5)
    method = Method(network)
    learn(method, tasks, plan)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        for task in tasks:
            optimizer = torch.optim.Adam(bare.parameters(), lr=plan.lr, fused=True)
            for epoch in range(plan.epochs):
                order = generator(plan.seed, f"order of task {task.index}, epoch {epoch}")
                for batch in iterate(task.train, plan.batch_size, order):
                    loss = F.cross_entropy(bare(batch.inputs), batch.targets, reduction="none")
                    optimizer.zero_grad()
                    loss.mean().backward()
                    nn.utils.clip_grad_norm_(bare.parameters(), 0.5)
                    optimizer.step()
    for ours, theirs in zip(method.model.parameters(), bare.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_callers_random_numbers_are_left_alone() -> None:
    method, tasks = small_method("finetuning"), small_tasks()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    learn(method, tasks, small_plan())
    assert torch.equal(torch.rand(2), expected)


def test_a_loss_that_becomes_nan_ends_with_advice() -> None:
    tasks = small_tasks(heads=False, tasks=1)
    with pytest.raises(TaskError, match=r"loss of task 'turn 0' became nan.*`lr`.*`clip_norm`"):
        learn(Method(mlp(2, (4,), 3)), tasks, small_plan(), loss=lambda o, t: o.sum(1) * torch.nan)


@pytest.mark.slow
def test_regression_is_learned_with_any_loss() -> None:
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    data = Data(x, x.square())
    tasks = TaskSequence("parabola", [Task("parabola", 0, data, None, data)], heads=False)
    outcome = learn(Method(mlp(1, (32,), 1)), tasks, Plan(epochs=150, batch_size=16, lr=0.01))
    assert outcome.accuracy_matrix[0][0] > -0.002  # minus the squared error
    assert outcome.untrained[0] < -0.05
    absolute = learn(
        Method(mlp(1, (32,), 1)),
        tasks,
        Plan(epochs=150, batch_size=16, lr=0.01),
        loss=lambda o, t: (o - t).abs().sum(1),
    )
    assert absolute.accuracy_matrix[0][0] > -0.05


def test_closed_form_methods_are_not_penalised_twice() -> None:
    class Pulls(Method):
        closed_form = True

        def penalty(self, step: Step | None = None, **given: Any) -> Tensor:
            raise AssertionError("must not be asked for in a step")

        def adjust_gradients(self, step: Step | None = None, **given: Any) -> None:
            for parameter in self.model.parameters():
                parameter.grad = torch.ones_like(parameter)

    method = Pulls(nn.Linear(2, 3))
    before = [p.detach().clone() for p in method.model.parameters()]
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1), lr=0.1)
    batch = small_tasks(heads=False)[0].train.batch(torch.arange(4))
    train_step(method, batch, Step(batch_size=4), cross_entropy, optimizer)
    for old, new in zip(before, method.model.parameters(), strict=True):
        assert torch.allclose(new, old - 0.1)
