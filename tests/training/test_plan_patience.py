"""The authors' patience, followed step by step."""

from __future__ import annotations

import pytest
import torch

from tests.training.small import NAMES, small_method, small_plan, small_tasks
from uclearn.methods.losses import cross_entropy
from uclearn.training import Plan, learn
from uclearn.training.loop import TaskLoop
from uclearn.training.plan import Advice, Patience


def test_five_epochs_without_a_better_loss_divide_the_rates_by_three() -> None:
    patience, plan = Patience(), Plan(patience=5, factor=3.0)
    assert patience.judge(1.0, plan) is Advice.KEEP
    advice = [patience.judge(1.0, plan) for _ in range(10)]
    assert [place for place, a in enumerate(advice) if a is Advice.SLOW_DOWN] == [4, 9]
    assert patience.slower == 9.0


def test_a_better_loss_starts_the_wait_anew() -> None:
    patience, plan = Patience(), Plan(patience=2)
    advice = [patience.judge(loss, plan) for loss in (1.0, 1.1, 0.9, 1.0, 1.0)]
    assert advice[-1] is Advice.SLOW_DOWN
    assert Advice.SLOW_DOWN not in advice[:-1]


def test_it_stops_once_the_rate_has_fallen_below_the_smallest() -> None:
    patience = Patience()
    plan = Plan(patience=1, factor=3.0, lr=0.001, stop_below=0.001 / 3**5)
    patience.judge(1.0, plan)
    advice = [patience.judge(1.0, plan) for _ in range(6)]
    assert advice == [Advice.SLOW_DOWN] * 5 + [Advice.STOP]


def test_both_learning_rates_are_divided_and_the_optimiser_is_fresh() -> None:
    tasks = small_tasks(heads=False)
    method = small_method("ucl", heads=False)
    method.lr_sigma = 0.02  # type: ignore[assignment]
    loop = TaskLoop(method, tasks[0], small_plan(lr=0.01, patience=1), cross_entropy)
    loop.run_epoch(lambda *_: None)
    assert loop.optimizer.state_dict()["state"]
    before = loop.optimizer
    loop.patience.best = -1.0  # nothing can be better: the next epoch slows down
    loop.run_epoch(lambda *_: None)
    assert loop.optimizer is not before
    assert not loop.optimizer.state_dict()["state"]
    rates = [group["lr"] for group in loop.optimizer.param_groups]
    assert rates == [pytest.approx(0.01 / 3), pytest.approx(0.02 / 3)]


def test_the_best_epoch_is_restored_before_the_task_ends() -> None:
    tasks = small_tasks(heads=False)
    method = small_method("si", heads=False)
    loop = TaskLoop(method, tasks[0], small_plan(patience=1), cross_entropy)
    loop.run_epoch(lambda *_: None)
    kept = {key: value.clone() for key, value in method.state_dict().items()}
    loop.patience.best = -1.0
    loop.run_epoch(lambda *_: None)
    assert any(not torch.equal(kept[k], v) for k, v in method.state_dict().items())
    assert loop.best is not None
    method.load_state_dict(loop.best)
    assert all(torch.equal(kept[k], v) for k, v in method.state_dict().items())


def test_a_better_epoch_takes_the_place_of_the_best_before_it() -> None:
    method = small_method("ucl", heads=False)
    loop = TaskLoop(method, small_tasks(heads=False)[0], small_plan(), cross_entropy)
    loop.run_epoch(lambda *_: None)
    assert loop.best is not None
    places = {key: tensor.data_ptr() for key, tensor in loop.best.items()}
    loop.patience.best = float("inf")  # whatever comes is better
    loop.run_epoch(lambda *_: None)
    for key, tensor in method.state_dict().items():
        assert torch.equal(loop.best[key], tensor)
        assert loop.best[key].data_ptr() == places[key]
        assert not tensor.numel() or places[key] != tensor.data_ptr()


@pytest.mark.parametrize("name", NAMES)
def test_every_method_can_be_judged_by_the_penalised_loss(name: str) -> None:
    plan = small_plan(epochs=1, select_by="penalised")
    outcome = learn(small_method(name), small_tasks(tasks=2), plan)
    assert len(outcome.accuracy_matrix) == 2
