"""What is set apart for the test: of each class the same share, groups whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.own.files import write_npz
from uclearn.tasks.own.divide import set_apart
from uclearn.tasks.own.source import own_data


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_some_of_each_class_and_never_all(share: float) -> None:
    strata = torch.tensor([0] * 2 + [1] * 10 + [2] * 100)
    apart = set_apart(strata, share, 0, "test")
    for stratum, count in ((0, 2), (1, 10), (2, 100)):
        own = int(apart[strata == stratum].sum())
        assert own == min(max(1, round(count * share)), count - 1)


def test_groups_are_not_torn_apart(tmp_path: Path) -> None:
    group = np.arange(120) // 6
    path = write_npz(tmp_path / "patients.npz", group=group)
    for seed in range(5):
        task = own_data(path, permute=1).build(seed, None, 1)[0]
        train, test = (set(group[part.rows]) for part in (task.train, task.test))  # type: ignore[union-attr]
        assert not train & test
        assert len(test) == 4  # a fifth of twenty
