"""The metrics against their definitions, written out."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.report.runs import matrix as recorded
from uclearn.measures import accuracy as metrics

MATRICES = st.integers(1, 6).flatmap(
    lambda n: hnp.arrays(np.float64, (n, n), elements=st.floats(0, 1, width=32))
)


@given(MATRICES)
def test_each_equals_its_definition(matrix: np.ndarray) -> None:
    tasks = len(matrix)
    assert metrics.average_accuracy(matrix) == pytest.approx(sum(matrix[-1]) / tasks)
    assert metrics.learning_accuracy(matrix) == pytest.approx(
        sum(matrix[j][j] for j in range(tasks)) / tasks
    )
    if tasks > 1:
        lost = [
            max(matrix[i][j] for i in range(j, tasks - 1)) - matrix[-1][j] for j in range(tasks - 1)
        ]
        assert metrics.forgetting(matrix) == pytest.approx(sum(lost) / (tasks - 1))
        back = [matrix[-1][j] - matrix[j][j] for j in range(tasks - 1)]
        assert metrics.backward_transfer(matrix) == pytest.approx(sum(back) / (tasks - 1))
        chance = [0.1] * tasks
        ahead = [matrix[j - 1][j] - 0.1 for j in range(1, tasks)]
        assert metrics.forward_transfer(matrix, chance) == pytest.approx(sum(ahead) / (tasks - 1))


def chaudhry(matrix: np.ndarray) -> float:
    """As it is written: f_j^k = max over l in 1..k-1 of a_{l,j} - a_{k,j}, averaged over j < k."""
    k = len(matrix)
    fallen = [
        max(matrix[row - 1][j - 1] for row in range(1, k)) - matrix[k - 1][j - 1]
        for j in range(1, k)
    ]
    return float(sum(fallen) / (k - 1))


@given(MATRICES)
def test_forgetting_is_chaudhrys_where_tasks_are_known_best_after_they_were_learned(
    matrix: np.ndarray,
) -> None:
    if len(matrix) == 1:
        return
    assert metrics.forgetting(matrix) <= chaudhry(matrix) + 1e-12
    learned = np.tril(matrix)  # nothing is known of a task before it is learned
    assert metrics.forgetting(learned) == pytest.approx(chaudhry(learned))


def test_what_was_guessed_before_it_was_learned_is_not_forgotten() -> None:
    guessed = np.array([[0.9, 0.6, 0.1], [0.9, 0.5, 0.1], [0.9, 0.5, 0.8]])
    assert metrics.forgetting(guessed) == 0
    assert chaudhry(guessed) == pytest.approx(0.05)


@given(MATRICES)
def test_nothing_is_forgotten_by_a_network_that_never_changes(matrix: np.ndarray) -> None:
    frozen = np.tile(matrix[0], (len(matrix), 1))
    assert metrics.forgetting(frozen) == pytest.approx(0)
    assert metrics.backward_transfer(frozen) == pytest.approx(0)


@given(MATRICES)
def test_joint_is_not_intransigent_towards_itself(matrix: np.ndarray) -> None:
    assert metrics.intransigence(matrix, matrix) == 0


def test_forward_transfer_cannot_be_had_with_heads() -> None:
    nan = float("nan")
    assert math.isnan(metrics.forward_transfer([[0.9, nan], [0.8, 0.9]], [nan, nan]))


def test_averages_use_only_what_was_learned() -> None:
    nan = float("nan")
    assert metrics.average_over_tasks([[0.8, nan], [0.6, 1.0]]) == [0.8, 0.8]


def test_a_matrix_must_be_one() -> None:
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        metrics.average_accuracy([0.1, 0.2, 0.3])


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_what_is_shown_of_a_record_has_the_same_definitions(tasks: int) -> None:
    noise = random.Random(tasks)
    rows = [[noise.random() for _ in range(tasks)] for _ in range(tasks)]
    assert metrics.average_course(rows) == pytest.approx(metrics.average_over_tasks(rows))
    assert metrics.mean_when_learned(rows) == pytest.approx(metrics.learning_accuracy(rows))


def test_a_mean_over_something_unmeasured_is_unknown_and_never_a_mean_of_the_rest() -> None:
    rows = [[0.5, None], [None, 1.0]]
    assert metrics.average_course(rows) == [0.5, None]
    assert metrics.mean_when_learned(rows) == 0.75
    assert metrics.mean_course([[0.5, None], [0.7, 0.9]]) == [pytest.approx(0.6), None]


def test_tasks_not_yet_learned_are_no_part_of_anything_shown() -> None:
    rows = recorded(3, 0.9, 0.1, seed=0)
    assert rows[0][1:] == [0.1, 0.1]  # guessing
    assert metrics.learned_part(rows)[0][1:] == [None, None]
    assert metrics.course(rows, task=2)[:2] == [None, None]
    lowest, _ = metrics.extent([metrics.learned_part(rows)])
    assert lowest > 0.5
