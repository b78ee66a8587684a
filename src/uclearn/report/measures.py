"""What an accuracy matrix says, where some of it may not have been measured.

R[i][j] is the accuracy on task j after learning task i, both from 0; None where it was not
measured. The definitions are those of `uclearn.training.metrics`, which needs torch; a report is
made where only records are.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Number: TypeAlias = float | None
Matrix: TypeAlias = Sequence[Sequence[Number]]


def mean(values: Iterable[Number]) -> Number:
    """The mean; None if there is nothing, or if any of it was not measured.

    >>> mean([0.5, 1.0]), mean([0.5, None]), mean([])
    (0.75, None, None)
    """
    found = list(values)
    measured = known(found)
    complete = measured and len(measured) == len(found)
    return math.fsum(measured) / len(measured) if complete else None


def average_over_tasks(matrix: Matrix) -> list[Number]:
    """After each task i the mean over the tasks learned so far: `1/(i+1) sum_{j<=i} R[i][j]`.

    >>> average_over_tasks([[0.75, None], [0.5, 1.0]])
    [0.75, 0.75]
    """
    return [mean(row[: i + 1]) for i, row in enumerate(matrix)]


def learning_accuracy(matrix: Matrix) -> Number:
    """How well each task was learned when it was its turn: `1/T sum_j R[j][j]`.

    >>> learning_accuracy([[0.75, None], [0.5, 1.0]])
    0.875
    """
    return mean(row[i] for i, row in enumerate(matrix))


def course(matrix: Matrix, task: int) -> list[Number]:
    """The accuracy on `task` after each task; None before it was learned.

    >>> course([[0.75, 0.1], [0.5, 1.0]], task=1)
    [None, 1.0]
    """
    return [row[task] if i >= task else None for i, row in enumerate(matrix)]


def learned_part(matrix: Matrix) -> list[list[Number]]:
    """The matrix without what was measured on tasks not yet learned.

    >>> learned_part([[0.75, 0.1], [0.5, 1.0]])
    [[0.75, None], [0.5, 1.0]]
    """
    return [
        [value if j <= i else None for j, value in enumerate(row)] for i, row in enumerate(matrix)
    ]


def mean_matrix(matrices: Sequence[Matrix]) -> list[list[Number]]:
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
    """What was measured.

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
