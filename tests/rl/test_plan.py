"""The plan's defaults are the paper's; what makes no sense is refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from uclearn.errors import SettingError
from uclearn.rl.plan import PPOPlan


def test_the_paper_and_its_authors() -> None:
    """Table of the supplement: 5M steps, 128 x 64, mini-batch 64; the authors' program cuts a
    rollout into 64 mini-batches instead, of 128 examples."""
    paper, authors = PPOPlan(), PPOPlan(minibatch_is="count")
    assert (paper.rollout_size, paper.iterations) == (8192, 610)
    assert (paper.minibatch_size, paper.minibatches) == (64, 128)
    assert (authors.minibatch_size, authors.minibatches) == (128, 64)
    assert (paper.gamma, paper.smoothing, paper.entropy_weight) == (0.99, 0.95, 0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "`epochs` must be at least 1, got 0. It counts passes over a rollout"),
        ({"renew_every": 0}, "`renew_every` must be at least 1, got 0"),
        ({"draws": "always"}, "`draws` must be one of forward, rollout, got 'always'"),
        ({"minibatch_is": "x"}, "`minibatch_is` must be one of size, count, got 'x'"),
        ({"lr": 0.0}, "`lr` must be positive and finite, got 0.0"),
        ({"gamma": 1.5}, "`gamma` must lie between 0 and 1, got 1.5"),
        ({"steps_per_task": 8000}, "at least one rollout, 128 environments x 64 steps = 8192, got"),
        ({"minibatch": 9000}, "`minibatch` must be at most 8192, the steps of a rollout, got 9000"),
    ],
)
def test_refusals(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as refused:
        PPOPlan(**settings)
    assert words in str(refused.value)
