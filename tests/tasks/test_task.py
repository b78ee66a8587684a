from __future__ import annotations

import pytest
import torch

from uclearn.errors import TaskError
from uclearn.methods.baselines import FineTuning
from uclearn.networks import mlp
from uclearn.tasks.data import Data, join
from uclearn.tasks.loader import FromLoader
from uclearn.tasks.task import Task, TaskSequence
from uclearn.training import Plan, learn


def data(labels: list[int], task: int = 0) -> Data:
    return Data(torch.zeros(len(labels), 3, 2), torch.tensor(labels), task=task)


def task(index: int, classes: int | None = 2, labels: list[int] | None = None) -> Task:
    own = data(labels or [0, 1], index)
    return Task(f"task {index}", index, own, None, own, classes)


def test_without_validation_data_the_training_data_serve() -> None:
    one = task(0)
    assert one.validation() is one.train
    held = data([1])
    assert Task("t", 0, one.train, held, None, 2).validation() is held


def test_labels_beyond_the_classes_are_refused_by_name() -> None:
    with pytest.raises(
        TaskError, match=r"labels in `train` of task 'task 0' .* 0 and 1 .* got labels from 0 to 2"
    ):
        task(0, 2, [0, 2])


def test_regression_needs_no_classes() -> None:
    one = Task("line", 0, Data(torch.zeros(2, 1), torch.tensor([0.5, -3.0])))
    assert TaskSequence("lines", [one], heads=False).classes == (None,)


def test_a_sequence_is_a_sequence() -> None:
    sequence = TaskSequence("s", [task(0), task(1), task(2)], heads=True)
    assert len(sequence) == 3
    assert sequence[-1].index == 2
    assert [t.index for t in sequence[1:]] == [1, 2]
    assert [t.name for t in sequence] == ["task 0", "task 1", "task 2"]
    assert sequence.input_shape == (3, 2)
    assert repr(sequence) == "TaskSequence('s', 3 tasks, a head each)"
    assert [t.index for t in sequence.take(2)] == [0, 1]


def test_numbers_must_follow_the_order() -> None:
    with pytest.raises(TaskError, match="'task 1' stands at place 0 and has `index` 1"):
        TaskSequence("s", [task(1)], heads=True)


def test_one_head_can_grow_but_not_shrink() -> None:
    with pytest.raises(TaskError, match=r"`heads` must be True .* classes \(3, 2\).* only grow"):
        TaskSequence("s", [task(0, 3), task(1)], heads=False)
    assert not TaskSequence("s", [task(0), task(1, 3)], heads=True).grows
    growing = TaskSequence("s", [task(0), task(1, 3)], heads=False)
    assert growing.grows
    assert repr(growing) == "TaskSequence('s', 2 tasks, one head that grows)"


def test_more_tasks_than_there_are_cannot_be_taken() -> None:
    with pytest.raises(TaskError, match=r"between 1 and 1 .* got 2"):
        TaskSequence("s", [task(0)], heads=True).take(2)


def test_examples_take_the_number_of_their_task() -> None:
    """Who leaves the number out would go through the head of the first task, without a word."""
    plain = data([0, 1])
    loader = FromLoader([(torch.zeros(2, 3, 2), torch.tensor([0, 1]))])
    one = Task("second", 1, plain, valid=plain, test=loader)
    first = torch.tensor([0])
    assert one.valid is not None
    assert (one.train.batch(first).task, one.valid.batch(first).task) == (1, 1)
    assert isinstance(one.test, FromLoader)
    assert one.test.task == 1
    mixed = Task("with old ones", 1, join([one.train, plain]))
    assert torch.equal(
        torch.as_tensor(mixed.train.batch(torch.tensor([0, 2])).task), first.new_tensor([1, 0])
    )


@pytest.mark.slow
def test_a_task_of_plain_data_trains_its_own_head() -> None:
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    data = [Data(x, (x[:, k] > 0).long()) for k in range(2)]
    tasks = TaskSequence(
        "own", [Task(f"{k}", k, each, test=each, classes=2) for k, each in enumerate(data)], True
    )
    outcome = learn(FineTuning(mlp(3, (16,), None)), tasks, Plan(epochs=20, batch_size=8, lr=0.01))
    assert outcome.accuracy_matrix[1][1] > 0.9
