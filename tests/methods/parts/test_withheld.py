"""Which examples make a coreset: k-center against brute force."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from uclearn.methods.parts.withheld import CHOICES, Withheld, k_center
from uclearn.tasks import Data, Task


def by_brute_force(points: Tensor, count: int, first: int) -> list[int]:
    """Each time the point whose nearest chosen one is furthest, all distances anew."""
    chosen = [first]
    while len(chosen) < count:
        gaps = {
            candidate: min(float((points[candidate] - points[c]).norm()) for c in chosen)
            for candidate in range(len(points))
            if candidate not in chosen
        }
        chosen.append(max(gaps, key=lambda candidate: gaps[candidate]))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_k_center_is_the_greedy_choice(seed: int) -> None:
    points = torch.randn(40, 2, 3, generator=torch.Generator().manual_seed(seed)).double()
    found = k_center(points, 12, first=seed)
    assert found.tolist() == by_brute_force(points, 12, seed)


@pytest.mark.parametrize("seed", range(3))
def test_k_center_covers_at_most_twice_as_widely_as_the_best_choice(seed: int) -> None:
    points = torch.randn(12, 2, generator=torch.Generator().manual_seed(seed))
    distances = torch.cdist(points, points)

    def radius(chosen: Tensor) -> float:
        return distances[:, chosen].amin(1).amax().item()

    best = min(radius(torch.tensor(c)) for c in itertools.combinations(range(12), 4))
    assert radius(k_center(points, 4)) <= 2 * best + 1e-6


def test_twins_are_chosen_at_most_once_each() -> None:
    points = torch.ones(6, 2)
    assert sorted(k_center(points, 6).tolist()) == list(range(6))


@pytest.mark.parametrize("choice", CHOICES)
def test_choices_follow_their_generator(choice: str) -> None:
    data = Data(torch.randn(50, 3), torch.zeros(50))

    def chosen(seed: int) -> Tensor:
        return CHOICES[choice](data, 7, torch.Generator().manual_seed(seed))

    assert torch.equal(chosen(1), chosen(1))
    assert not torch.equal(chosen(1), chosen(2))
    assert len(set(chosen(1).tolist())) == 7


def test_k_center_sees_prepared_inputs() -> None:
    """Stored as bytes, spread out only by what prepares them."""
    stored = torch.arange(5, dtype=torch.uint8)[:, None]
    data = Data(stored, torch.zeros(5), prepare=lambda x: x.float() ** 4)
    found = CHOICES["k-center"](data, 2, torch.Generator().manual_seed(0)).tolist()
    assert found in ([0, 4], [1, 4], [2, 4], [3, 4], [4, 0])


def test_what_is_kept_is_a_copy_and_comes_back_as_it_was() -> None:
    inputs, targets = torch.randn(9, 2), torch.arange(9) % 3
    kept = Withheld()
    task = Task("t", 4, Data(inputs, targets, task=4), classes=3)
    kept.put(task, task.train.subset(torch.tensor([7, 2])))
    inputs.zero_()
    assert kept.tasks() == [4]
    found = kept.data(4)
    assert found.targets.tolist() == [1, 2]
    assert found.task == 4
    assert found.inputs.abs().min() > 0
    assert kept.as_task(4, [4]).classes == 3


def test_a_state_makes_room_for_its_own_tasks_and_only_those() -> None:
    saved, fresh = Withheld(), Withheld()
    for index in (0, 1):
        data = Data(torch.randn(3 + index, 2), torch.zeros(3 + index))
        saved.put(Task("t", index, data), data)
    other = Data(torch.randn(2, 2), torch.zeros(2))
    fresh.put(Task("t", 5, other), other)
    fresh.load_state_dict(saved.state_dict())
    assert fresh.tasks() == [0, 1]
    assert torch.equal(fresh.data(1).inputs, saved.data(1).inputs)
    assert fresh.as_task(1, [0, 1]).classes is None
    assert len(fresh.as_task(1, [0, 1]).train) == 7
