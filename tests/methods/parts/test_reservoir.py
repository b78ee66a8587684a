"""The reservoir: who is kept, by definition and by count."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.methods.parts.reservoir import Reservoir
from uclearn.tasks import Batch, Data, FromLoader, join
from uclearn.tasks.data import generator


def numbered(first: int, count: int, task: int = 0) -> Data:
    """Examples that are their own number."""
    numbers = torch.arange(first, first + count)
    return Data(numbers[:, None].float(), numbers, task=task)


def chi_square(counts: Tensor, expected: float) -> float:
    return float(((counts - expected).square() / expected).sum())


@pytest.mark.parametrize("pieces", [(40,), (3, 17, 20)])
def test_every_example_of_the_stream_is_equally_likely_to_be_kept(pieces: tuple[int, ...]) -> None:
    size, runs = 8, 1500
    kept = torch.zeros(40)
    for seed in range(runs):
        memory = Reservoir(size, seed)
        begin = 0
        for count in pieces:
            memory.remember(numbered(begin, count))
            begin += count
        assert len(memory.targets.unique()) == size
        kept[memory.targets] += 1
    # 39 degrees of freedom, made smaller by drawing without replacement: mean 39 * 0.8
    assert chi_square(kept, runs * size / 40) < 62.4  # 1 in 100 for chi-square with 39


def test_every_set_is_equally_likely() -> None:
    """More than single examples: all ten pairs out of five."""
    runs = 2000
    pairs = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    for seed in range(runs):
        memory = Reservoir(2, seed)
        memory.remember(numbered(0, 5))
        first, second = sorted(memory.targets.tolist())
        pairs[first, second] += 1
    counts = torch.tensor(list(pairs.values())).float()
    assert chi_square(counts, runs / 10) < 21.7  # 1 in 100 for 9 degrees of freedom


def test_it_is_algorithm_r_one_example_at_a_time() -> None:
    """Oracle: the textbook loop with the same draws."""
    size, count, seed = 5, 60, 3
    memory = Reservoir(size, seed)
    memory.remember(numbered(0, count))
    draws = torch.rand(count, generator=generator(seed, "reservoir 0"), dtype=torch.float64)
    slots: list[int] = []
    for number in range(count):
        drawn = math.floor(draws[number].item() * (number + 1))
        if number < size:
            slots.append(number)
        elif drawn < size:
            slots[drawn] = number
    assert memory.targets.tolist() == slots
    assert memory.inputs.flatten().tolist() == slots
    assert memory.seen == count


def test_what_is_kept_is_what_the_network_saw() -> None:
    stored = torch.arange(20, dtype=torch.uint8)[:, None]
    labels = torch.tensor([7, 9])
    data = Data(
        stored, torch.arange(20) % 2, prepare=lambda x: x.float() / 10, labels=labels, task=4
    )
    memory = Reservoir(6)
    memory.remember(data)
    number = memory.inputs.flatten().mul(10).round().long()
    assert torch.equal(memory.inputs, number[:, None].float() / 10)
    assert torch.equal(memory.targets, labels[number % 2])
    assert memory.tasks.tolist() == [4] * 6


def test_examples_of_mixed_tasks_keep_their_numbers() -> None:
    memory = Reservoir(30)
    memory.remember(join([numbered(0, 10, task=0), numbered(10, 10, task=1)]))
    assert torch.equal(memory.tasks, memory.targets // 10)
    parts, places = memory.parts(torch.tensor([15, 2, 11]))
    assert [part.task for part in parts] == [0, 1]
    together = torch.cat([part.all_targets() for part in parts])
    assert together[places].tolist() == [15, 2, 11]


def test_a_loader_is_passed_by_batch_by_batch() -> None:
    memory = Reservoir(4)
    data = numbered(0, 30)
    batches = [data.batch(rows)[:2] for rows in torch.arange(30).split(7)]
    memory.remember(FromLoader(batches, task=2))
    assert memory.seen == 30
    assert torch.equal(memory.inputs.flatten().long(), memory.targets)
    assert memory.tasks.tolist() == [2] * 4


def test_it_grows_up_to_its_size_and_loads_into_an_empty_one() -> None:
    memory = Reservoir(5, seed=1)
    lengths = []
    for begin in (0, 2, 4, 6):
        memory.remember(numbered(begin, 2))
        lengths.append(len(memory))
    assert lengths == [2, 4, 5, 5]
    fresh = Reservoir(5, seed=1)
    fresh.load_state_dict(memory.state_dict())
    for each in (memory, fresh):
        each.remember(numbered(8, 50))
    assert all(torch.equal(a, b) for a, b in zip(memory.buffers(), fresh.buffers(), strict=True))
    empty = Reservoir(5, seed=1)
    memory.load_state_dict(empty.state_dict())
    assert len(memory) == 0


def test_what_is_drawn_can_be_looked_at_as_a_batch() -> None:
    memory = Reservoir(5)
    memory.remember(numbered(0, 5, task=3))
    batch = memory.batch(torch.tensor([4, 4, 1]))
    assert isinstance(batch, Batch)
    assert batch.targets.tolist() == [4, 4, 1]
    assert torch.as_tensor(batch.task).tolist() == [3, 3, 3]


def test_examples_of_another_shape_are_refused() -> None:
    memory = Reservoir(5)
    memory.remember(numbered(0, 5))
    with pytest.raises(DataError, match=r"holds inputs of shape \(1,\).*got \(2,\).*pad or resize"):
        memory.remember(Data(torch.zeros(100, 2), torch.zeros(100).long()))


def test_a_memory_without_room_is_refused() -> None:
    with pytest.raises(SettingError, match=r"`size` must be at least 1, got 0\. It is the"):
        Reservoir(0)
