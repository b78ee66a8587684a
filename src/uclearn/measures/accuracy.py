"""What the accuracy matrix says.

R[i, j] is the accuracy on task j after learning task i, both from 0. Of numbers (NaN where nothing
was measured): the measures that a run records; higher is better, except for forgetting and
intransigence. As it stands in a record (a `Table`, None where nothing was measured): what is shown
of it, where a mean over something unmeasured is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]
Number: TypeAlias = float | None
Table: TypeAlias = Sequence[Sequence[Number]]


def as_matrix(rows: ArrayLike) -> Matrix:
    """R as a square array.

    >>> as_matrix([[1, 0], [0.5, 1]]).shape
    (2, 2)
    """
    matrix = np.asarray(rows, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] > matrix.shape[1]:
        raise ValueError(f"an accuracy matrix is (tasks learned, tasks), got shape {matrix.shape}")
    return matrix


def average_accuracy(rows: ArrayLike) -> float:
    """Mean over all learned tasks, after the last: `1/T sum_j R[T-1, j]`.

    >>> average_accuracy([[0.9, 0.1], [0.7, 0.8]])
    0.75
    """
    return average_over_tasks(rows)[-1]


def average_over_tasks(rows: ArrayLike) -> list[float]:
    """After each task i the mean over the tasks learned so far: `1/(i+1) sum_{j<=i} R[i, j]`.

    >>> average_over_tasks([[0.9, 0.1], [0.7, 0.8]])
    [0.9, 0.75]
    """
    matrix = as_matrix(rows)
    return [float(np.mean(matrix[i, : i + 1])) for i in range(len(matrix))]


def forgetting(rows: ArrayLike) -> float:
    """How far the old tasks fell from their best since they were learned:
    `1/(T-1) sum_{j<T-1} ( max_{j<=i<T-1} R[i, j] - R[T-1, j] )`; 0 for a single task.

    Chaudhry (2018) takes the maximum over all i < T-1, also before task j was learned. Nobody can
    forget what was not learned yet, and with heads nothing is measured there; so it is left out
    here. The two agree wherever a task is known best some time after it was learned; otherwise
    this one is smaller (a HAT that is full learns a task worse than it guessed it before, and has
    forgotten nothing).

    >>> round(forgetting([[0.9, 0.1], [0.7, 0.8]]), 6)
    0.2
    """
    matrix = as_matrix(rows)
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return float(np.mean([np.max(matrix[j:last, j]) - matrix[last, j] for j in range(last)]))


def backward_transfer(rows: ArrayLike) -> float:
    """What later tasks did to earlier ones (Lopez-Paz 2017):
    `1/(T-1) sum_{j<T-1} ( R[T-1, j] - R[j, j] )`; 0 for a single task.

    >>> round(backward_transfer([[0.9, 0.1], [0.7, 0.8]]), 6)
    -0.2
    """
    matrix = as_matrix(rows)
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return float(np.mean([matrix[last, j] - matrix[j, j] for j in range(last)]))


def forward_transfer(rows: ArrayLike, untrained: Sequence[float]) -> float:
    """What earlier tasks did for one not yet learned (Lopez-Paz 2017):
    `1/(T-1) sum_{j>0} ( R[j-1, j] - b_j )`, b_j the accuracy of the untrained network; NaN where
    tasks to come cannot be tried (heads).

    >>> round(forward_transfer([[0.9, 0.3], [0.7, 0.8]], untrained=[0.1, 0.1]), 6)
    0.2
    """
    matrix = as_matrix(rows)
    if len(matrix) < 2:
        return 0.0
    return float(np.mean([matrix[j - 1, j] - untrained[j] for j in range(1, len(matrix))]))


def learning_accuracy(rows: ArrayLike) -> float:
    """How well each task was learned when it was its turn: `1/T sum_j R[j, j]`.

    >>> round(learning_accuracy([[0.9, 0.1], [0.7, 0.8]]), 6)
    0.85
    """
    return float(np.mean(np.diagonal(as_matrix(rows))))


def intransigence(rows: ArrayLike, joint: ArrayLike) -> float:
    """How much worse each task is learned than by joint training (Chaudhry 2018):
    `1/T sum_j ( Joint[j, j] - R[j, j] )`, Joint the matrix of the joint method.

    >>> round(intransigence([[0.9, 0.1], [0.7, 0.8]], joint=[[0.9, 0.1], [0.9, 0.9]]), 6)
    0.05
    """
    return learning_accuracy(joint) - learning_accuracy(rows)


def mean(values: Iterable[Number]) -> Number:
    """The mean of `values`; None if there is nothing, or if any of it was not measured.

    >>> mean([0.5, 1.0]), mean([0.5, None]), mean([])
    (0.75, None, None)
    """
    found = list(values)
    measured = known(found)
    complete = measured and len(measured) == len(found)
    return math.fsum(measured) / len(measured) if complete else None


def average_course(matrix: Table) -> list[Number]:
    """After each task the mean over the tasks learned so far: `average_over_tasks` of a record.

    >>> average_course([[0.75, None], [0.5, 1.0]])
    [0.75, 0.75]
    """
    return [mean(row[: i + 1]) for i, row in enumerate(matrix)]


def mean_when_learned(matrix: Table) -> Number:
    """The mean over tasks, each right after it was learned: `learning_accuracy` of a record.

    >>> mean_when_learned([[0.75, None], [0.5, 1.0]])
    0.875
    """
    return mean(row[i] for i, row in enumerate(matrix))


def course(matrix: Table, task: int) -> list[Number]:
    """The accuracy on `task` after each task; None before it was learned.

    >>> course([[0.75, 0.1], [0.5, 1.0]], task=1)
    [None, 1.0]
    """
    return [row[task] if i >= task else None for i, row in enumerate(matrix)]


def learned_part(matrix: Table) -> list[list[Number]]:
    """The matrix without what was measured on tasks not yet learned.

    >>> learned_part([[0.75, 0.1], [0.5, 1.0]])
    [[0.75, None], [0.5, 1.0]]
    """
    return [
        [value if j <= i else None for j, value in enumerate(row)] for i, row in enumerate(matrix)
    ]


def mean_matrix(matrices: Sequence[Table]) -> list[list[Number]]:
    """Entry by entry the mean over seeds.

    >>> mean_matrix([[[0.25]], [[0.75]]])
    [[0.5]]
    """
    rows = zip(*matrices, strict=True)
    return [[mean(entries) for entries in zip(*row, strict=True)] for row in rows]


def mean_course(seeds: Sequence[Sequence[Number]]) -> list[Number]:
    """Point by point the mean over seeds.

    >>> mean_course([[0.25, None], [0.75, 0.5]])
    [0.5, None]
    """
    return [mean(values) for values in zip(*seeds, strict=True)]


def known(values: Iterable[Number]) -> list[float]:
    """Those of `values` that were measured.

    >>> known([None, 0.5])
    [0.5]
    """
    return [value for value in values if value is not None]


def extent(tables: Iterable[Iterable[Iterable[Number]]]) -> tuple[float, float]:
    """The least and the greatest of all that was measured; 0 and 1 if nothing was.

    >>> extent([[[None, 0.5], [0.25, 0.75]]])
    (0.25, 0.75)
    """
    measured = [value for rows in tables for row in rows for value in known(row)]
    return min(measured, default=0.0), max(measured, default=1.0)
