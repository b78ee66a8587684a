"""Learning rates that change from step to step: their shape, and that they reach every group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.small import NAMES, small_method, small_plan, small_tasks
from uclearn.errors import SettingError
from uclearn.methods.losses import cross_entropy
from uclearn.session import StoppedError
from uclearn.training import Plan, learn
from uclearn.training.loop import TaskLoop
from uclearn.training.plan import ScheduleName


def scheduled(schedule: ScheduleName, **changes: Any) -> Plan:
    return small_plan(schedule=schedule, patience=None, **changes)


def rates_of(plan: Plan, name: str = "finetuning", **attributes: Any) -> list[list[float]]:
    """Every group's rate at every step of the first task."""
    method = small_method(name, heads=False)
    for key, value in attributes.items():
        setattr(method, key, value)
    loop = TaskLoop(method, small_tasks(heads=False)[0], plan, cross_entropy)
    seen: list[list[float]] = []
    while not loop.done:
        loop.run_epoch(lambda *_: seen.append([g["lr"] for g in loop.optimizer.param_groups]))
    return [list(group) for group in zip(*seen, strict=True)]


def test_without_a_schedule_rates_are_left_alone() -> None:
    assert rates_of(small_plan(patience=None)) == [[0.01] * 9]


def test_a_cosine_falls_from_the_full_rate_to_none_and_is_halved_in_the_middle() -> None:
    (rates,) = rates_of(scheduled("cosine"))  # 3 epochs of 3 batches
    assert rates == sorted(rates, reverse=True)
    assert rates[4] == pytest.approx(0.005)
    assert [a + b for a, b in zip(rates, reversed(rates), strict=True)] == [pytest.approx(0.01)] * 9
    assert 0 < rates[-1] < 0.0001


def test_one_cycle_rises_for_the_warmup_and_falls_in_straight_lines() -> None:
    (rates,) = rates_of(scheduled("one-cycle", warmup=1 / 3))
    middles = [(step + 0.5) / 9 for step in range(9)]
    expected = [m * 3 if m < 1 / 3 else (1 - m) * 1.5 for m in middles]
    assert rates == [pytest.approx(0.01 * rate) for rate in expected]


def test_warmup_alone_ends_at_the_full_rate() -> None:
    (rates,) = rates_of(scheduled("constant", warmup=0.5))
    assert rates[:4] == [pytest.approx(0.01 * (step + 0.5) / 4.5) for step in range(4)]
    assert rates[5:] == [0.01] * 4


def test_both_learning_rates_of_ucl_follow_the_schedule() -> None:
    means, sigmas = rates_of(scheduled("cosine"), "ucl", lr_sigma=0.02)
    assert sigmas == [pytest.approx(2 * rate) for rate in means]


def test_patience_and_a_schedule_exclude_each_other() -> None:
    with pytest.raises(SettingError, match="`patience` must be None with the schedule 'cosine'"):
        Plan(schedule="cosine", patience=5)


def test_warmup_goes_with_patience() -> None:
    assert Plan(warmup=0.1, patience=5).rate(0.05) == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_method_learns_by_a_schedule(name: str) -> None:
    plan = scheduled("one-cycle", epochs=20, lr=0.05)
    outcome = learn(small_method(name), small_tasks(tasks=1), plan)
    assert outcome.accuracy_matrix[0][0] > 0.6


def test_a_resumed_schedule_ends_where_an_undisturbed_one_ends(tmp_path: Path) -> None:
    plan = scheduled("one-cycle", checkpoint_seconds=0.0)
    calm = small_method("ucl")
    learn(calm, small_tasks(), plan)
    saves = 0

    def interrupt(event: str, details: dict[str, Any]) -> None:
        nonlocal saves
        saves += event == "saved"
        if event == "saved" and saves == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        learn(small_method("ucl"), small_tasks(), plan, folder=tmp_path, observer=interrupt)
    resumed = small_method("ucl")
    learn(resumed, small_tasks(), plan, folder=tmp_path)
    expected = calm.state_dict()
    assert all(torch.equal(expected[key], value) for key, value in resumed.state_dict().items())
