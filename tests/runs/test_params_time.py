"""How long runs are estimated to take."""

from __future__ import annotations

from tests.runs.small import SMALL
from uclearn.runs.params import estimate_seconds
from uclearn.runs.resolve import resolve


def test_twice_the_epochs_are_estimated_to_take_about_twice_the_time() -> None:
    def estimated(epochs: int) -> float:
        overrides = {**SMALL, "plan.epochs": epochs}
        config = resolve("split-digits", "ewc", overrides=overrides)
        return min(estimate_seconds([config], None, workers=1) for _ in range(5))

    estimated(1)
    assert 1.0 < estimated(40) / estimated(10) < 16.0
