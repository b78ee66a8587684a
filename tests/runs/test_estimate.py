"""How long runs are estimated to take."""

from __future__ import annotations

import pytest

from tests.runs.small import SMALL
from uclearn.rl.pace import seconds_per_step
from uclearn.runs import rl
from uclearn.runs.estimate import estimates, kinds
from uclearn.runs.resolve import resolve


def test_twice_the_epochs_are_estimated_to_take_about_twice_the_time() -> None:
    def estimated(epochs: int) -> float:
        overrides = {**SMALL, "plan.epochs": epochs}
        config = resolve("split-digits", "ewc", overrides=overrides)
        return min(next(estimates([config])).seconds for _ in range(5))

    estimated(1)
    assert 1.0 < estimated(40) / estimated(10) < 16.0


def test_runs_that_differ_in_their_seeds_alone_are_tried_once() -> None:
    configs = [
        resolve("split-digits", method, overrides=SMALL, seed=seed)
        for seed in range(3)
        for method in ("ewc", "finetuning")
    ]
    found = list(estimates(configs))
    assert [(each.config.method, each.runs) for each in found] == [("ewc", 3), ("finetuning", 3)]
    assert len(kinds(configs)) == 2
    assert all(each.seconds > 0 for each in found)


def test_acting_takes_the_steps_of_every_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl, "seconds_per_step", lambda method, sequence, plan: [0.001, 0.002])
    monkeypatch.setattr(rl, "build_method", lambda config: None)
    plan = {"plan.environments": 4, "plan.rollout_steps": 8, "plan.steps_per_task": 100}
    names = "Pendulum-v1,MountainCarContinuous-v0"
    config = rl.resolve_rl(names, "finetuning", overrides={**plan, "plan.minibatch": 8})
    (found,) = estimates([config])
    assert found.seconds == pytest.approx(0.003 * 96)  # three whole rollouts of 32


@pytest.mark.rl
def test_each_environment_has_a_pace() -> None:
    names = "Pendulum-v1,MountainCarContinuous-v0"
    plan = {"plan.environments": 4, "plan.rollout_steps": 8, "plan.epochs": 1}
    config = rl.resolve_rl(names, "ucl", overrides={**plan, "plan.minibatch": 8})
    method, made = rl.build_method(config), config.make_plan()
    paces = seconds_per_step(method, config.environments(), made)
    assert len(paces) == 2
    assert all(0 < pace < 1 for pace in paces)
