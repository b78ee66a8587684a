"""Figures of the paper, ablations and stages: lists of runs with a purpose."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS
from uclearn.paper.curves import ablations
from uclearn.paper.stages import STAGES
from uclearn.paper.studies import (
    RL_STUDIES,
    STUDIES,
    rl_study,
    study,
    study_configs,
)
from uclearn.runs.resolve import resolve
from uclearn.runs.rl import resolve_rl
from uclearn.runs.supervised import RunConfig


def configs_of(name: str, scale: float | None = None) -> list[RunConfig]:
    return study_configs(study(name), resolve, scale=scale)


def test_an_ablation_switches_off_one_ingredient() -> None:
    for overrides in ablations():
        config = resolve("permuted-mnist", "ucl", preset="paper", overrides=overrides)
        switches = ("upper_freeze", "freeze", "inflate")
        off = [key for key in switches if config.setting("ucl", key) is False]
        assert off == [key.removeprefix("ucl.") for key in overrides]


def test_a_figure_has_a_run_for_each_curve_and_seed() -> None:
    assert [len(configs_of("figure-5", scale)) for scale in (None, 0.05)] == [20, 4]
    names = ("figure-8", "rl-four", "rl-eight")
    acting = [study_configs(rl_study(name), resolve_rl) for name in names]
    assert [len(configs) for configs in acting] == [4, 18, 10]


def test_scaled_steps_of_a_stage_hold_at_least_a_rollout() -> None:
    def steps(scale: float) -> set[int]:
        made = study_configs(rl_study("rl-eight"), resolve_rl, scale=scale)
        return {config.make_plan().steps_per_task for config in made}

    assert (steps(0.1), steps(0.001)) == ({50_000}, {8192})


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name not in STAGES])
def test_a_figure_has_the_papers_seeds_and_nothing_changed_but_its_subject(name: str) -> None:
    configs = configs_of(name)
    seeds = {config.seed for config in configs}
    assert len(seeds) == (8 if "cifar" in configs[0].benchmark else 5)
    assert {config.preset for config in configs} == {"paper"}
    assert {config.scale for config in configs} == {None}
    allowed = {key for curve in study(name).curves for key in curve.overrides}
    changed = {note.partition("=")[0] for config in configs for note in config.changed}
    assert changed <= allowed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STAGES if name != "full-length"])
def test_a_stage_gives_every_method_the_same_epochs_and_seeds(name: str) -> None:
    """But for VCL, which is run once, and for the paper's own length beside the fast one."""
    configs = [config for config in configs_of(name) if config.method != "vcl" or name == "broad"]
    alike: dict[tuple[str, ...], list[RunConfig]] = {}
    for config in configs:
        data = str(config.document()["data"])
        alike.setdefault((config.benchmark, config.preset, data), []).append(config)
    for own in alike.values():
        epochs = {config.make_plan().epochs for config in own}
        assert epochs == ({5, 20, 100} if name == "longer" else {own[0].make_plan().epochs})
        groups = Counter(config.fingerprint(with_seed=False) for config in own)
        assert len(set(groups.values())) == 1


def test_what_is_stopped_half_way_has_every_method() -> None:
    configs = configs_of("cifar10-100")
    first = configs[: next(k for k, config in enumerate(configs) if config.seed == 1)]
    assert [config.method for config in first] == [
        *("ucl", "ewc", "si", "finetuning", "joint"),
        "ucl",
    ]
    assert [config.make_plan().epochs for config in first] == [20] * 5 + [100]


@pytest.mark.slow
def test_the_broad_stage_has_every_method_and_each_kind_of_ucl_once() -> None:
    curves = {c.fingerprint(with_seed=False): c for c in configs_of("broad")}.values()
    on_permuted = [c for c in curves if c.benchmark == "permuted-mnist"]
    assert set(METHODS) <= {config.method for config in on_permuted}
    kinds = [
        (config.setting("ucl", "sampling"), config.setting("ucl", "sigma"))
        for config in on_permuted
        if config.method == "ucl"
    ]
    assert sorted(kinds, key=str) == sorted(product(("local", "weight"), (0.06, None)), key=str)


def test_the_length_of_the_paper_is_the_length_of_the_paper() -> None:
    assert [c.make_plan().epochs for c in configs_of("full-length")] == [100, 100]


def test_scaled_figures_are_marked_in_every_run() -> None:
    assert {config.scale for config in configs_of("figure-7", scale=0.1)} == {0.1}
    with pytest.raises(SettingError, match=r"There is no figure or stage 'figure-9'"):
        study("figure-9")


@pytest.mark.parametrize("name", RL_STUDIES)
def test_all_methods_of_a_study_get_the_same_steps(name: str) -> None:
    configs = study_configs(rl_study(name), resolve_rl)
    plans = {config.make_plan().steps_per_task for config in configs}
    assert plans == {500_000 if name.startswith("rl-") else 5_000_000}
    with pytest.raises(SettingError, match="There is no figure or stage 'figure-99'"):
        rl_study("figure-99")
