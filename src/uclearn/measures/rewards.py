"""From raw returns to the two figures of the paper: normalised reward per task, and its sum.

What tasks pay differs widely. A return is brought to a common scale by a range: from a random
policy to a fresh network that learned the task alone; or, as in the paper's supplement, from the
least to the most that EWC reached in the same sequence (its main text divides by the maximum
alone). Which one is the report's to say (`uclearn.report.rewards`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from uclearn.errors import DataError

LearningCurve = Sequence[Sequence[float]]
"""One entry per evaluation: the mean return of every task seen by then, in the order of tasks."""


class Reached(NamedTuple):
    """The two mean returns of a task that stand for 0 and 1."""

    least: float
    greatest: float


def reached(curve: LearningCurve) -> list[Reached]:
    """What each task's return ranged over, for a reference run.

    >>> reached([[1.0], [3.0], [2.0, -1.0]])
    [Reached(least=1.0, greatest=3.0), Reached(least=-1.0, greatest=-1.0)]
    """
    tasks = max((len(returns) for returns in curve), default=0)
    by_task = [[r[task] for r in curve if len(r) > task] for task in range(tasks)]
    return [Reached(min(own), max(own)) for own in by_task]


def normalised(value: float, reference: Reached) -> float:
    """(value - least) / (greatest - least).

    Where the reference never moved off one value there is no scale to measure by, and the answer
    is NaN.

    >>> normalised(2.0, Reached(1.0, 3.0))
    0.5
    """
    width = reference.greatest - reference.least
    return (value - reference.least) / width if width > 0 else math.nan


def normalised_curve(curve: LearningCurve, references: Sequence[Reached]) -> list[list[float]]:
    """Every return of a run on the reference's scale; shaped as `curve`."""
    for returns in curve:
        if len(returns) > len(references):
            raise DataError(
                f"`references` must hold a range for each of the {len(returns)} tasks, got "
                f"{len(references)}. Take them from a run over the same sequence: `reached(curve)`."
            )
    return [
        [normalised(v, r) for v, r in zip(returns, references, strict=False)] for returns in curve
    ]


def cumulative(curve: LearningCurve) -> list[float]:
    """For each evaluation the sum over the tasks seen by then; tasks without a scale count 0.

    >>> cumulative([[0.5], [0.5, 1.0], [0.25, float("nan")]])
    [0.5, 1.5, 0.25]
    """
    return [math.fsum(v for v in returns if not math.isnan(v)) for returns in curve]
