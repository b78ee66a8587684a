"""What a search for settings found: what matters, and who is level with the best."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.runs import config, write_run
from uclearn.report.explored import searches
from uclearn.report.groups import collect, comparisons


def test_importance_is_the_share_that_goes_with_a_setting(tmp_path: Path) -> None:
    for beta, accuracy in {1: 0.9, 2: 0.8, 3: 0.6}.items():  # whatever alpha is
        for alpha in (10, 20):
            wanted = config(settings={"beta": beta, "alpha": alpha, "twin": alpha}, tasks=1)
            write_run(tmp_path / f"{beta}-{alpha}", wanted, [[accuracy]])
    (search,) = searches(comparisons(collect([tmp_path]).complete)[0])
    found = {setting.name: share for setting, share in search.settings}
    # alpha and what was changed with it are one setting, and tell nothing
    assert found == {"beta": pytest.approx(1.0), "alpha, twin": 0.0}
    assert search.level == [True, True, False, False, False, False]


def test_with_several_seeds_level_means_not_told_apart(tmp_path: Path) -> None:
    scores = {1: (0.90, 0.92), 2: (0.91, 0.90), 3: (0.50, 0.52), 4: (0.40, 0.42)}
    for beta, seeds in scores.items():
        for seed, accuracy in enumerate(seeds):
            wanted = config("ewc", seed, settings={"beta": beta}, tasks=1)
            write_run(tmp_path / f"{beta}-{seed}", wanted, [[accuracy]])
    (search,) = searches(comparisons(collect([tmp_path]).complete)[0])
    # 1 and 2 differ by -0.01 and 0.02; 1 and 3 by 0.40 in both seeds
    assert search.level == [True, True, False, False]


def test_fewer_than_four_settings_are_no_search(tmp_path: Path) -> None:
    for beta in (1, 2, 3):
        write_run(tmp_path / f"{beta}", config(settings={"beta": beta}, tasks=1), [[0.1 * beta]])
    assert searches(comparisons(collect([tmp_path]).complete)[0]) == []
