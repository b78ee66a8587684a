"""Ablations, sweeps and figures of the paper: lists of runs with a purpose."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.runs.small import SMALL
from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS
from uclearn.runs.ablate import ABLATIONS
from uclearn.runs.estimate import estimate_seconds
from uclearn.runs.overrides import resolve
from uclearn.runs.reproduce import STUDIES, study, study_configs
from uclearn.runs.stages import STAGES
from uclearn.runs.sweep import candidates, paper_grid, parse_grid


def test_an_ablation_switches_off_one_ingredient() -> None:
    for overrides in ABLATIONS.values():
        config = resolve("permuted-mnist", "ucl", preset="paper", overrides=overrides)
        switches = ("upper_freeze", "freeze", "inflate")
        off = [key for key in switches if config.setting("ucl", key) is False]
        assert off == [key.removeprefix("ucl.") for key in overrides]


def test_a_sweep_judges_the_first_tasks_by_validation_data() -> None:
    grid = {"ewc.strength": (1.0, 2.0), "plan.lr": (0.1, 0.2, 0.3)}
    tried = candidates("split-digits", "ewc", grid, seeds=2)
    assert len(tried) == 6
    for candidate in tried:
        assert [config.seed for config in candidate.configs] == [0, 1]
        for config in candidate.configs:
            assert config.tasks == 3
            assert config.data.judge == "validation"
            assert config.setting("ewc", "strength") == candidate.values["ewc.strength"]
    everything = candidates("split-digits", "ewc", grid, tasks=None)
    assert {config.tasks for each in everything for config in each.configs} == {None}


def test_the_papers_grids_contain_the_papers_values() -> None:
    for name, method in (("permuted-mnist", "ucl"), ("omniglot", "ewc"), ("split-cifar100", "si")):
        for key, values in paper_grid(name, method).items():
            part, setting = key.split(".")
            best = resolve(name, method, preset="paper").setting(part, setting)
            assert best in values
    with pytest.raises(SettingError, match=r"The paper lists no grid for vcl on split-mnist"):
        paper_grid("split-mnist", "vcl")


@pytest.mark.parametrize("text", ["ewc.strength", "=1,2", "ewc.strength="])
def test_what_is_no_grid_says_how_one_is_written(text: str) -> None:
    with pytest.raises(SettingError, match=r"A grid is written `part.key=a,b,c`"):
        parse_grid([text])


def test_a_sweep_over_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match=r"There is nothing to try"):
        candidates("split-digits", "ewc", {})


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in STAGES])
def test_a_figure_has_the_papers_seeds_and_nothing_changed_but_its_subject(name: str) -> None:
    configs = study_configs(name)
    seeds = {config.seed for config in configs}
    assert len(seeds) == (8 if "cifar" in configs[0].benchmark else 5)
    assert {config.preset for config in configs} == {"paper"}
    assert {config.scale for config in configs} == {None}
    allowed = {key for curve in study(name).curves for key in curve.overrides}
    changed = {note.partition("=")[0] for config in configs for note in config.changed}
    assert changed <= allowed


@pytest.mark.parametrize("name", [name for name in STAGES if name != "full-length"])
def test_a_stage_gives_every_method_the_same_epochs_and_seeds(name: str) -> None:
    configs = study_configs(name)
    for benchmark in {config.benchmark for config in configs}:
        own = [config for config in configs if config.benchmark == benchmark]
        assert len({config.make_plan().epochs for config in own}) == 1
        groups = Counter(config.fingerprint(with_seed=False) for config in own)
        assert len(set(groups.values())) == 1


def test_the_broad_stage_has_every_method_and_each_kind_of_ucl_once() -> None:
    curves = {c.fingerprint(with_seed=False): c for c in study_configs("broad")}.values()
    on_permuted = [c for c in curves if c.benchmark == "permuted-mnist"]
    assert set(METHODS) <= {config.method for config in on_permuted}
    kinds = [
        (config.setting("ucl", "sampling"), config.setting("ucl", "sigma"))
        for config in on_permuted
        if config.method == "ucl"
    ]
    assert sorted(kinds, key=str) == sorted(product(("local", "weight"), (0.06, None)), key=str)


def test_the_length_of_the_paper_is_the_length_of_the_paper() -> None:
    assert [c.make_plan().epochs for c in study_configs("full-length")] == [100, 100]


def test_scaled_figures_are_marked_in_every_run() -> None:
    assert {config.scale for config in study_configs("figure-7", scale=0.1)} == {0.1}
    with pytest.raises(SettingError, match=r"There is no figure or stage 'figure-9'"):
        study("figure-9")


def test_twice_the_epochs_are_estimated_to_take_about_twice_the_time() -> None:
    def estimated(epochs: int) -> float:
        overrides = {**SMALL, "plan.epochs": epochs}
        config = resolve("split-digits", "ewc", overrides=overrides)
        return min(estimate_seconds([config], None, workers=1) for _ in range(5))

    estimated(1)
    assert 1.0 < estimated(40) / estimated(10) < 16.0
