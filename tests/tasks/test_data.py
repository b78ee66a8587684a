from __future__ import annotations

import pytest
import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.tasks.data import Batch, Data, Joined, iterate, join


def numbers(count: int, task: int = 0, first: int = 0) -> Data:
    """Example `i` has input and target `first + i`."""
    values = torch.arange(first, first + count)
    return Data(values.float()[:, None], values, task=task)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def targets_of(batches: list[Batch]) -> list[int]:
    return [int(target) for batch in batches for target in batch.targets]


def test_a_batch_is_prepared_rows_with_looked_up_labels() -> None:
    stored = torch.tensor([[10], [20], [30], [40]], dtype=torch.uint8)
    labels = torch.tensor([7, 5, 7, 9])
    table = torch.full((10,), -1)
    table[7], table[9] = 0, 1
    rows = torch.tensor([3, 0, 2])
    data = Data(stored, labels, rows, lambda batch: batch.float() / 10, table, task=4)

    batch = data.batch(torch.tensor([2, 0]))

    assert batch.inputs.tolist() == [[3.0], [4.0]]
    assert batch.targets.tolist() == [0, 1]
    assert batch.task == 4
    assert data.all_targets().tolist() == [1, 0, 0]
    assert len(data) == 3


def test_a_subset_of_a_subset_shares_storage_and_keeps_the_order() -> None:
    data = numbers(10)
    small = data.subset(torch.tensor([9, 3, 5, 1])).subset(torch.tensor([2, 0]))
    assert small.all_targets().tolist() == [5, 9]
    assert small.inputs.data_ptr() == data.inputs.data_ptr()


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(DataError, match="the same number of examples, got 3 inputs and 2 targets"):
        Data(torch.zeros(3, 1), torch.zeros(2))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.tensor([0, 3]), "between 0 and 2 .* got values from 0 to 3"),
        (torch.tensor([-1]), "between 0 and 2 .* got values from -1 to -1"),
        (torch.tensor([0.0]), "must be an int64 tensor of one dimension, got torch.float32"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Data(torch.zeros(3, 1), torch.zeros(3), rows)


def test_an_epoch_visits_every_example_once_in_the_generators_order() -> None:
    data = numbers(10)
    batches = list(iterate(data, 4, seeded(3)))
    assert [len(batch.targets) for batch in batches] == [4, 4, 2]
    assert targets_of(batches) == torch.randperm(10, generator=seeded(3)).tolist()
    assert targets_of(list(iterate(data, 4))) == list(range(10))


def test_each_epoch_draws_a_new_order() -> None:
    stream = seeded()
    first, second = (targets_of(list(iterate(numbers(50), 50, stream))) for _ in range(2))
    assert first != second


def test_resuming_in_the_middle_continues_the_same_epoch() -> None:
    whole = [batch.targets.tolist() for batch in iterate(numbers(23), 4, seeded())]
    for start in range(8):
        rest = [batch.targets.tolist() for batch in iterate(numbers(23), 4, seeded(), start)]
        assert rest == whole[start:]


def test_drop_last_drops_only_an_incomplete_batch() -> None:
    assert [len(b.targets) for b in iterate(numbers(10), 4, drop_last=True)] == [4, 4]
    assert [len(b.targets) for b in iterate(numbers(8), 4, drop_last=True)] == [4, 4]


def test_impossible_batches_are_refused_at_once() -> None:
    with pytest.raises(SettingError, match="`size` must be at least 1, got 0"):
        iterate(numbers(3), 0)
    with pytest.raises(SettingError, match="`start` must not be negative, got -1"):
        iterate(numbers(3), 2, start=-1)


def test_joined_parts_read_as_their_concatenation() -> None:
    parts = (numbers(4), numbers(1, task=1, first=4), numbers(5, task=2, first=5))
    joined = Joined(parts)
    tasks = [0] * 4 + [1] + [2] * 5
    for seed in range(20):
        positions = torch.randperm(10, generator=seeded(seed))[:6]
        batch = joined.batch(positions)
        assert batch.targets.tolist() == positions.tolist()
        assert batch.inputs[:, 0].tolist() == positions.tolist()
        assert isinstance(batch.task, Tensor)
        assert batch.task.tolist() == [tasks[p] for p in positions.tolist()]
    assert joined.all_targets().tolist() == list(range(10))
    assert len(joined) == 10


def test_parts_of_one_task_give_its_number() -> None:
    joined = Joined((numbers(2, task=3), numbers(2, task=3)))
    assert joined.batch(torch.tensor([0, 3])).task == 3


def test_subsets_of_joined_parts_keep_the_order_asked_for_also_when_joined_again() -> None:
    joined = Joined((numbers(4), numbers(4, task=1, first=4)))
    chosen = [6, 1, 1, 7, 0]  # twice the same is allowed: sampling with replacement
    subset = joined.subset(torch.tensor(chosen))
    assert subset.all_targets().tolist() == chosen
    assert subset.batch(torch.arange(5)).targets.tolist() == chosen
    again = subset.subset(torch.tensor([4, 0, 2]))
    assert again.all_targets().tolist() == [0, 6, 1]
    more = join([subset, numbers(2, task=2, first=20), again])
    assert more.all_targets().tolist() == [*chosen, 20, 21, 0, 6, 1]
    assert all(isinstance(part, Data) for part in more.parts)


def test_a_subset_may_be_empty() -> None:
    empty = Joined((numbers(2), numbers(2))).subset(torch.tensor([], dtype=torch.int64))
    assert len(empty) == 0
    assert list(iterate(empty, 2)) == []


def test_nothing_cannot_be_joined() -> None:
    with pytest.raises(DataError, match="at least one part, got none"):
        join([])


def test_joined_data_iterate_like_any_other() -> None:
    joined = Joined((numbers(5), numbers(5, task=1, first=5)))
    assert sorted(targets_of(list(iterate(joined, 3, seeded())))) == list(range(10))
