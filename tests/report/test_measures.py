"""The same numbers as `uclearn.training.metrics`, and honest about what was not measured."""

import random

import pytest

from tests.report.runs import matrix
from uclearn.report import measures
from uclearn.training import metrics


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_the_definitions_are_those_of_the_trainer(tasks: int) -> None:
    noise = random.Random(tasks)
    rows = [[noise.random() for _ in range(tasks)] for _ in range(tasks)]
    assert measures.average_over_tasks(rows) == pytest.approx(metrics.average_over_tasks(rows))
    assert measures.learning_accuracy(rows) == pytest.approx(metrics.learning_accuracy(rows))


def test_a_mean_over_something_unmeasured_is_unknown_and_never_a_mean_of_the_rest() -> None:
    rows = [[0.5, None], [None, 1.0]]
    assert measures.average_over_tasks(rows) == [0.5, None]
    assert measures.learning_accuracy(rows) == 0.75
    assert measures.mean_course([[0.5, None], [0.7, 0.9]]) == [pytest.approx(0.6), None]


def test_tasks_not_yet_learned_are_no_part_of_anything_shown() -> None:
    rows = matrix(3, 0.9, 0.1, seed=0)
    assert rows[0][1:] == [0.1, 0.1]  # guessing
    assert measures.learned_part(rows)[0][1:] == [None, None]
    assert measures.course(rows, task=2)[:2] == [None, None]
    lowest, _ = measures.extent([measures.learned_part(rows)])
    assert lowest > 0.5
