"""Normalised and cumulative rewards, by hand."""

from __future__ import annotations

import math

import pytest

from uclearn.errors import DataError
from uclearn.measures.rewards import (
    Reached,
    cumulative,
    normalised,
    normalised_curve,
    reached,
)

EWC = [[10.0], [50.0], [30.0, -4.0], [20.0, 4.0]]
UCL = [[0.0], [40.0], [50.0, 0.0], [60.0, 2.0]]


def test_by_hand_with_the_range_of_ewc() -> None:
    """Task 1 ranged over 10..50, task 2 over -4..4."""
    references = reached(EWC)
    assert references == [Reached(10.0, 50.0), Reached(-4.0, 4.0)]
    curve = normalised_curve(UCL, references)
    assert curve == [[-0.25], [0.75], [1.0, 0.5], [1.25, 0.75]]
    assert cumulative(curve) == [-0.25, 0.75, 1.5, 2.0]


def test_the_reference_itself_lies_between_0_and_1_and_touches_both() -> None:
    curve = normalised_curve(EWC, reached(EWC))
    for task in (0, 1):
        own = [row[task] for row in curve if len(row) > task]
        assert (min(own), max(own)) == (0.0, 1.0)


def test_what_has_no_scale_is_nan_and_counts_nothing() -> None:
    assert math.isnan(normalised(3.0, Reached(2.0, 2.0)))
    assert cumulative([[math.nan, 0.5]]) == [0.5]


def test_refusals() -> None:
    with pytest.raises(DataError, match="a range for each of the 2 tasks, got 1"):
        normalised_curve(UCL, [Reached(0.0, 1.0)])
