from __future__ import annotations

import pytest
import torch

from uclearn.errors import SettingError, TaskError
from uclearn.tasks.data import Data, DataLike, Joined
from uclearn.tasks.loader import FromLoader
from uclearn.tasks.task import (
    Task,
    TaskSequence,
    hold_out,
    in_sequence,
    permuted,
    row_permuted,
    split,
    with_validation,
)
from uclearn.tasks.transforms import Normalise, Permute, Then

PICTURES = torch.arange(6 * 4 * 3, dtype=torch.uint8).reshape(6, 4, 3)
LABELS = torch.tensor([0, 1, 2, 3, 4, 2])
SCALE = Normalise(peak=1)


def whole() -> Data:
    return Data(PICTURES, LABELS, prepare=SCALE)


def inputs(data: DataLike | None) -> torch.Tensor:
    assert data is not None
    found: torch.Tensor = data.batch(torch.arange(len(data))).inputs
    return found


def order_of(task: Task) -> torch.Tensor:
    assert isinstance(task.train, Data)
    assert isinstance(task.train.prepare, Then)
    last = task.train.prepare.steps[-1]
    assert isinstance(last, Permute)
    return last.permutation


def test_permuted_tasks_hold_the_same_pixels_each_in_its_own_order() -> None:
    sequence = permuted(whole(), whole(), tasks=3, seed=0)
    plain = PICTURES.flatten(1).float()
    for task in sequence:
        order = order_of(task)
        assert sorted(order.tolist()) == list(range(12))
        assert torch.equal(inputs(task.train), plain[:, order])
        assert torch.equal(inputs(task.test), inputs(task.train))
        assert task.train.batch(torch.tensor([0])).task == task.index
    orders = [tuple(order_of(task).tolist()) for task in sequence]
    assert len(set(orders)) == 3
    assert tuple(range(12)) not in orders  # the first task is permuted too
    assert sequence.classes == (5, 5, 5)
    assert not sequence.heads


def test_permutations_follow_the_seed_and_not_the_number_of_tasks() -> None:
    few, many = (permuted(whole(), whole(), tasks, seed=7) for tasks in (2, 5))
    other = permuted(whole(), whole(), 2, seed=8)
    assert torch.equal(order_of(few[1]), order_of(many[1]))
    assert not torch.equal(order_of(few[1]), order_of(other[1]))


def test_ten_permuted_tasks_share_one_copy_of_the_pictures() -> None:
    sequence = permuted(whole(), whole(), tasks=10, seed=0)
    stores = {t.train.inputs.data_ptr() for t in sequence if isinstance(t.train, Data)}
    assert stores == {PICTURES.data_ptr()}


def test_row_permuted_tasks_move_whole_rows() -> None:
    for task in row_permuted(whole(), whole(), tasks=4, seed=1):
        rows = inputs(task.train).reshape(6, 4, 3)
        order = [int((PICTURES[0].float() == row).all(1).nonzero()) for row in rows[0]]
        assert sorted(order) == [0, 1, 2, 3]
        assert torch.equal(rows, PICTURES[:, order].float())


def test_permuted_regression_has_no_classes() -> None:
    line = Data(torch.rand(4, 3), torch.rand(4))
    assert permuted(line, line, 2, seed=0).classes == (None, None)


def test_permuted_validation_data_are_permuted_as_the_rest() -> None:
    for make in (permuted, row_permuted):
        for task in make(whole(), whole(), 2, seed=0, valid=whole()):
            assert torch.equal(inputs(task.valid), inputs(task.train))


def test_rows_need_pictures() -> None:
    flat = Data(torch.zeros(2, 12), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(TaskError, match=r"\(height, width\) pictures .* got shape \(12,\)"):
        row_permuted(flat, flat, 2, seed=0)


def test_no_tasks_are_refused() -> None:
    with pytest.raises(SettingError, match="`tasks` must be at least 1, got 0"):
        permuted(whole(), whole(), 0, seed=0)


def test_split_tasks_have_their_own_classes_counted_from_zero() -> None:
    sequence = split(whole(), whole(), [(4, 2), (0, 1, 3)])
    assert sequence.heads
    assert sequence.classes == (2, 3)
    first, second = sequence
    assert torch.equal(inputs(first.train), PICTURES[[2, 4, 5]].float())
    assert first.train.all_targets().tolist() == [1, 0, 1]  # class 4 is 0, class 2 is 1
    assert second.train.all_targets().tolist() == [0, 1, 2]
    assert first.name == "4/2"
    assert second.train.batch(torch.tensor([0])).task == 1


def test_split_order_and_names() -> None:
    sequence = split(whole(), whole(), [(0,), (1,), (2, 3)], [2, 0, 1], names=["a", "b", "c"])
    assert [task.name for task in sequence] == ["c", "a", "b"]
    assert sequence.classes == (2, 1, 1)
    assert [task.index for task in sequence] == [0, 1, 2]


def test_splitting_what_is_already_relabelled_goes_by_the_new_labels() -> None:
    table = torch.tensor([4, 3, 2, 1, 0])
    turned = Data(PICTURES, LABELS, labels=table, prepare=SCALE)
    first = split(turned, turned, [(4, 3)])[0]
    assert torch.equal(inputs(first.train), PICTURES[[0, 1]].float())
    assert first.train.all_targets().tolist() == [0, 1]


def test_a_class_without_test_examples_is_no_error() -> None:
    few = whole().subset(torch.tensor([0, 1]))
    assert split(whole(), few, [(0, 4)])[0].test is not None


@pytest.mark.parametrize("group", [(0, 9), (1, 1), ()])
def test_impossible_groups_are_refused(group: tuple[int, ...]) -> None:
    with pytest.raises(TaskError, match="Each of `groups` must hold different classes"):
        split(whole(), whole(), [group])


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"`order` must hold each of the 2 groups once, got \[0, 0\]"
    ):
        split(whole(), whole(), [(0,), (1,)], [0, 0])


def test_hold_out_parts_the_examples_by_seed() -> None:
    data = Data(torch.arange(100.0), torch.arange(100))
    rest, held = hold_out(data, 0.25, seed=0)
    assert (len(rest), len(held)) == (75, 25)
    both = rest.all_targets().tolist() + held.all_targets().tolist()
    assert sorted(both) == list(range(100))
    assert held.all_targets().tolist() == sorted(held.all_targets().tolist())
    assert torch.equal(hold_out(data, 0.25, seed=0)[1].all_targets(), held.all_targets())
    assert not torch.equal(hold_out(data, 0.25, seed=1)[1].all_targets(), held.all_targets())
    other = hold_out(data, 0.25, seed=0, purpose="other")[1]
    assert not torch.equal(other.all_targets(), held.all_targets())


@pytest.mark.parametrize("fraction", [0, 1, 1.5])
def test_hold_out_refuses_all_and_nothing(fraction: float) -> None:
    with pytest.raises(SettingError, match="`fraction` must lie strictly between 0 and 1"):
        hold_out(whole(), fraction, seed=0)


def test_what_is_held_out_does_not_depend_on_the_order_of_tasks() -> None:
    data = Data(torch.arange(40.0), torch.arange(40) % 4)
    names, groups = ["x", "y"], [(0, 1), (2, 3)]
    forth, back = (
        with_validation(split(data, data, groups, order, names=names), 0.3, seed=5)
        for order in ([0, 1], [1, 0])
    )
    assert torch.equal(inputs(forth[0].valid), inputs(back[1].valid))
    assert len(forth[0].train) == 14
    assert not set(inputs(forth[0].valid).tolist()) & set(inputs(forth[0].train).tolist())


def test_validation_cannot_be_held_out_of_a_loader() -> None:
    task = Task("stream", 0, FromLoader([(torch.zeros(1), torch.zeros(1))]))
    with pytest.raises(TaskError, match="`train` of task 'stream' must be Data"):
        with_validation(TaskSequence("s", [task], heads=True), 0.1, seed=0)


def test_tasks_from_anywhere_are_renumbered_with_their_data() -> None:
    own = Data(torch.zeros(2, 1), torch.tensor([0, 1]), task=9)
    loader = FromLoader([(torch.zeros(1, 1), torch.zeros(1))], task=9)
    tasks = [
        Task("a", 3, own, None, own, 2),
        Task("b", 3, Joined((own, own)), loader, None, 2),
    ]
    sequence = in_sequence("both", tasks, heads=True)
    assert [task.index for task in sequence] == [0, 1]
    assert sequence[0].train.batch(torch.tensor([0])).task == 0
    assert sequence[1].train.batch(torch.tensor([0, 3])).task == 1
    assert isinstance(sequence[1].valid, FromLoader)
    assert sequence[1].valid.task == 1
