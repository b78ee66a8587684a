"""Sweeps: what is tried, and by what it is judged."""

from __future__ import annotations

import pytest

from uclearn.errors import SettingError
from uclearn.runs.resolve import resolve
from uclearn.runs.sweep import candidates, paper_grid, parse_grid


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
