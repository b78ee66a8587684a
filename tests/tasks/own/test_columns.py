"""Columns of numbers, words and gaps."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.tasks.own.files import machines
from uclearn.tasks.own.source import own_data


def test_a_table_of_numbers_words_and_gaps(tmp_path: Path) -> None:
    made = own_data(machines(tmp_path / "wear.csv"))
    tasks = made.build(0, None, 2)
    assert [task.name for task in tasks] == ["lathe", "drill"]  # as they first appear
    assert not tasks.heads
    # heat, that it is missing, blue, red
    assert made.input_shape == (4,)
    whole = torch.cat([t.train.batch(torch.arange(len(t.train))).inputs for t in tasks])
    assert bool(torch.isfinite(whole).all())
    missing = whole[:, 1] == 1
    assert bool((whole[missing, 0] == 0).all())  # the mean of the first task
    assert torch.equal(whole[:, 2] + whole[:, 3], torch.ones(len(whole)))
