from __future__ import annotations

import pytest
import torch

from uclearn.errors import TaskError
from uclearn.tasks.data import Data, Joined
from uclearn.tasks.loader import FromLoader
from uclearn.tasks.task import Task, TaskSequence


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


def test_one_head_cannot_serve_different_numbers_of_classes() -> None:
    with pytest.raises(TaskError, match=r"`heads` must be True .* classes \(2, 3\)"):
        TaskSequence("s", [task(0), task(1, 3)], heads=False)
    assert TaskSequence("s", [task(0), task(1, 3)], heads=True).classes == (2, 3)


def test_more_tasks_than_there_are_cannot_be_taken() -> None:
    with pytest.raises(TaskError, match=r"between 1 and 1 .* got 2"):
        TaskSequence("s", [task(0)], heads=True).take(2)


def test_class_incremental_labels_count_through_all_heads() -> None:
    mixed = Joined((data([1, 0], 1), data([2], 1)))
    tasks = [task(0), Task("joined", 1, mixed, data([2], 1), mixed, 3), task(2, 4, [3, 0])]
    sequence = TaskSequence("s", tasks, heads=True)

    assert sequence.class_offsets() == (0, 2, 5)
    view = sequence.class_incremental()

    assert not view.heads
    assert view.classes == (9, 9, 9)
    tests = [t.test for t in view]
    assert [t.all_targets().tolist() for t in tests if t is not None] == [[0, 1], [3, 2, 4], [8, 5]]
    assert view[1].validation().all_targets().tolist() == [4]
    assert view[2].train.batch(torch.tensor([0])).targets.tolist() == [8]
    assert view[2].train.batch(torch.tensor([0])).task == 2


def test_class_incremental_labels_of_split_tasks_are_shifted_after_the_lookup() -> None:
    table = torch.tensor([-1, -1, 0, 1])
    own = Data(torch.zeros(2, 1), torch.tensor([3, 2]), labels=table, task=1)
    sequence = TaskSequence("s", [task(0), Task("2/3", 1, own, None, own, 2)], heads=True)
    assert sequence.class_incremental()[1].train.all_targets().tolist() == [3, 2]


def test_what_cannot_be_lined_up_says_why() -> None:
    with pytest.raises(TaskError, match="got None for task 'task 0'"):
        TaskSequence("s", [task(0, None)], heads=True).class_offsets()
    loader = Task("l", 0, FromLoader([(torch.zeros(1), torch.zeros(1))]), classes=2)
    with pytest.raises(
        TaskError, match="task 'l' cannot be renumbered: its data come from a loader"
    ):
        TaskSequence("s", [loader], heads=True).class_incremental()
