"""Runs of reinforcement learning from configuration to summary, as the command line makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import placed
from uclearn.errors import SettingError
from uclearn.paper.settings import RL
from uclearn.rl.catalogue import PAPER
from uclearn.runs.config import read_config
from uclearn.runs.grid import Result, run_all
from uclearn.runs.rl import RLConfig, build_method, resolve_rl, with_references

QUICK = {
    "plan.environments": 4,
    "plan.rollout_steps": 8,
    "plan.steps_per_task": 64,
    "plan.epochs": 1,
    "plan.minibatch": 16,
    "plan.evaluation_episodes": 2,
    "plan.renew_every": 1,
}


def quick(method: str = "finetuning", seed: int = 0) -> RLConfig:
    return resolve_rl("classic", method, seed=seed, overrides=QUICK)


def test_the_preset_has_the_papers_numbers() -> None:
    plan = resolve_rl("paper", "ewc").make_plan()
    assert (plan.steps_per_task, plan.environments, plan.rollout_steps) == (5_000_000, 128, 64)
    assert (plan.epochs, plan.minibatch_size, plan.entropy_weight) == (10, 64, 0.0)
    assert (plan.value_weight, plan.gamma, plan.smoothing) == (0.5, 0.99, 0.95)
    assert resolve_rl("paper", "ewc").setting("ewc", "strength") == 10
    assert resolve_rl("paper", "ucl").setting("ucl", "beta") == 5e-6
    assert resolve_rl("paper", "ucl").environments() == PAPER


def test_every_value_of_the_preset_is_a_setting_of_its_method() -> None:
    for method, values in RL.items():
        config = resolve_rl("classic", method)
        for key, (value, source) in values.items():
            assert config.setting(*key.split(".")) == value
            assert source


def test_a_configuration_comes_back_from_its_document_as_its_own_kind() -> None:
    config = quick("ucl", seed=3)
    again = read_config(json.loads(config.to_json()))
    assert again == config
    assert isinstance(again, RLConfig)


def test_scaled_steps_are_marked_and_hold_at_least_a_rollout() -> None:
    assert resolve_rl("paper", "ucl", scale=0.1).make_plan().steps_per_task == 500_000
    least = resolve_rl("paper", "ucl", scale=0.0001)
    assert least.make_plan().iterations == 1
    assert "scale0.0001" in least.folder_name()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"plan.stepz": 1}, "There is no setting `plan.stepz`"),
        ({"network.hidden": [3]}, "There is no setting `network.hidden`"),
        ({"policy.activation": "sine"}, "`policy.activation`: must be 'tanh' or 'relu'"),
        ({"plan.steps_per_task": 5}, "`steps_per_task` must hold at least one rollout"),
        ({"ucl.beta": -1.0}, "`beta` must be 0 or greater"),
        ({"tasks": 3}, "`tasks` must lie between 1 and 2 for classic, got 3"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    overrides: dict[str, object], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        resolve_rl("classic", "ucl", overrides=overrides)


@pytest.mark.parametrize("method", ["lwf", "vcl", "hat", "joint", "ucl+replay"])
def test_methods_that_need_stored_examples_are_refused(method: str) -> None:
    with pytest.raises(SettingError, match=r"`method` must be one of finetuning, ucl, ewc"):
        resolve_rl("classic", method)


def test_references_learn_one_environment_each_by_the_same_plan() -> None:
    both = [quick(method, seed) for method in ("ucl", "ewc") for seed in (0, 1)]
    made = with_references(both)
    assert [config.seed for config in made] == [0] * 4 + [1] * 4
    alone = [config for config in made if config not in both]
    assert [config.benchmark for config in alone] == list(quick().environments()) * 2
    for config in alone:
        assert config.method == "finetuning"
        assert (config.plan, config.policy) == (both[0].plan, both[0].policy)
        assert all(note.startswith("plan.") for note in config.changed)
        assert config == resolve_rl(
            config.benchmark, "finetuning", seed=config.seed, overrides=QUICK
        )
        assert config.alone() == []  # a sequence of one needs no measure


@pytest.mark.rl
def test_methods_are_built_around_a_policy_as_wide_as_the_widest_task() -> None:
    assert build_method(quick("ucl")).model.width == 3  # Pendulum has 3, MountainCar 2


@pytest.mark.slow
@pytest.mark.rl
def test_runs_side_by_side_are_those_of_one_after_the_other(tmp_path: Path) -> None:
    configs = [quick("finetuning"), quick("rwalk")]
    together = run_all(placed(configs, tmp_path / "two"), workers=2)
    alone = [run_all(placed([each], tmp_path / "one"), workers=1)[0] for each in configs]
    assert [result.state for result in (*together, *alone)] == ["made"] * 4
    for one, other in zip(together, alone, strict=True):
        rewards = rewards_of(one)
        assert rewards == rewards_of(other)
        assert rewards["task"] == [0, 0, 1, 1]
        assert rewards["steps"] == [32, 64, 96, 128]
        assert [len(returns) for returns in rewards["returns"]] == [1, 1, 2, 2]
    again = run_all(placed(configs, tmp_path / "two"), workers=2)
    assert [result.state for result in again] == ["done", "done"]


def rewards_of(result: Result) -> dict[str, Any]:
    summary = result.summary()
    assert summary is not None
    found: dict[str, Any] = summary.extra["rewards"]
    return found
