from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from uclearn.errors import DataError
from uclearn.tasks.data import Data, DataLike, iterate, join
from uclearn.tasks.loader import FromLoader, stored


def loader(count: int = 10, shuffle: bool = False) -> DataLoader[tuple[torch.Tensor, ...]]:
    values = torch.arange(count)
    return DataLoader(TensorDataset(values.float()[:, None], values), batch_size=4, shuffle=shuffle)


def order(data: DataLike, seed: int, start: int = 0) -> list[list[int]]:
    stream = torch.Generator().manual_seed(seed)
    return [batch.targets.tolist() for batch in iterate(data, 99, stream, start)]


def test_the_loaders_own_batches_come_through() -> None:
    batches = list(iterate(FromLoader(loader(), task=3), size=99))
    assert [batch.targets.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[0].inputs.tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert {batch.task for batch in batches} == {3}


def test_a_shuffling_loader_follows_the_generator_and_resumes() -> None:
    data = FromLoader(loader(50, shuffle=True))
    whole = order(data, seed=1)
    torch.manual_seed(12345)  # the global state must not matter
    assert order(data, seed=1) == whole
    assert order(data, seed=2) != whole
    assert order(data, seed=1, start=5) == whole[5:]


def test_the_global_state_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    order(FromLoader(loader(shuffle=True)), seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_lists_of_batches_are_counted_and_restarted() -> None:
    data = FromLoader(
        [(torch.zeros(3, 1), torch.tensor([0, 1, 2])), (torch.ones(1, 1), torch.ones(1))]
    )
    assert len(data) == 4
    assert data.all_targets().tolist() == [0, 1, 2, 1]
    assert len(list(iterate(data, 2, start=1))) == 1


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return ((torch.zeros(1), torch.tensor(n)) for n in range(7))


def test_a_streaming_data_set_is_counted_in_one_pass() -> None:
    assert len(FromLoader(DataLoader(Stream(), batch_size=2))) == 7


def test_stored_reads_a_loader_into_memory_and_leaves_the_rest_alone() -> None:
    kept = stored(FromLoader(loader(), task=2))
    assert isinstance(kept, Data)
    assert kept.all_targets().tolist() == list(range(10))
    assert kept.task == 2
    assert stored(kept) is kept


def test_what_needs_random_access_says_how_to_get_it() -> None:
    data = FromLoader(loader())
    for attempt in (data.batch, data.subset):
        with pytest.raises(DataError, match=r"cannot be picked one by one.*`stored\(data\)`"):
            attempt(torch.tensor([0]))
    with pytest.raises(DataError, match=r"got FromLoader.*`stored\(part\)`"):
        join([data])


def test_an_iterator_is_refused() -> None:
    with pytest.raises(
        DataError, match="`loader` must be iterable more than once, got an iterator"
    ):
        FromLoader(iter(loader()))


def test_batches_without_targets_are_refused() -> None:
    with pytest.raises(DataError, match=r"must yield \(inputs, targets\) batches, got a Tensor"):
        list(iterate(FromLoader([torch.zeros(3)]), 1))


def test_an_empty_loader_cannot_be_stored() -> None:
    with pytest.raises(DataError, match="at least one batch, got none"):
        stored(FromLoader([]))
