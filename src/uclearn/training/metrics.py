"""What the accuracy matrix says.

R[i, j] is the accuracy on task j after learning task i, both from 0; NaN where it was not measured.
All are pure functions of R. Higher is better, except for forgetting and intransigence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]


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
    """How far the old tasks fell from their best (Chaudhry 2018):
    `1/(T-1) sum_{j<T-1} ( max_{i<T-1} R[i, j] - R[T-1, j] )`; 0 for a single task.

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
