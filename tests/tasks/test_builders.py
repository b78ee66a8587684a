from __future__ import annotations

import torch

from uclearn.tasks.builders import alphabet_tasks
from uclearn.tasks.data import Data, DataLike
from uclearn.tasks.sources.omniglot import Drawings
from uclearn.tasks.task import Task
from uclearn.tasks.transforms import Jitter

JITTER = Jitter(copies=4)


def drawings() -> Drawings:
    """Two alphabets of 3 and 2 characters, 20 drawings each; all pixels of drawing `i` are `i`."""
    count = 5 * 20
    inputs = torch.arange(count, dtype=torch.uint8)[:, None, None].expand(-1, 28, 28).contiguous()
    characters = torch.tensor([0, 1, 2, 0, 1]).repeat_interleave(20)
    alphabets = torch.tensor([0] * 60 + [1] * 40)
    return Drawings(inputs, alphabets, characters, ("first", "second"))


def seen(data: DataLike | None) -> list[int]:
    """Which drawings the examples show: the pixel in the middle tells, however turned."""
    assert isinstance(data, Data)
    inputs = data.batch(torch.arange(len(data))).inputs
    assert inputs.shape[1:] == (1, 28, 28)
    return [round(value * 255) for value in inputs[:, 0, 14, 14].tolist()]


def parts(task: Task) -> list[list[int]]:
    return [seen(task.train), seen(task.valid), seen(task.test)]


def test_by_default_no_drawing_is_on_two_sides_and_only_training_is_augmented() -> None:
    sequence = alphabet_tasks(drawings(), seed=0, jitter=JITTER)
    assert sequence.heads
    assert sequence.classes == (3, 2)
    assert [task.name for task in sequence] == ["first", "second"]
    for task, own in zip(sequence, (range(60), range(60, 100)), strict=True):
        train, valid, test = parts(task)
        assert sorted([*set(train), *valid, *test]) == list(own)
        assert all(train.count(drawing) == 5 for drawing in set(train))
        for part, share in ((train, 16 * 5), (valid, 2), (test, 2)):
            by_character = torch.tensor(part).div(20, rounding_mode="floor").bincount()
            assert set(by_character[by_character > 0].tolist()) == {share}


def test_labels_are_the_characters_and_tasks_the_alphabets() -> None:
    for task in alphabet_tasks(drawings(), seed=0, jitter=JITTER):
        for part in (task.train, task.valid, task.test):
            shown = torch.tensor(seen(part))
            assert part is not None
            expected = drawings().characters[shown]
            batch = part.batch(torch.arange(len(part)))
            assert torch.equal(batch.targets, expected)
            assert batch.task == task.index


def test_the_authors_order_leaks_copies_across_the_split() -> None:
    sequence = alphabet_tasks(drawings(), seed=0, jitter=JITTER, split_after_augmentation=True)
    train, valid, test = parts(sequence[0])
    assert (len(train), len(valid), len(test)) == (240, 30, 30)  # of 60 drawings, 5 times each
    assert all((train + valid + test).count(drawing) == 5 for drawing in range(60))
    assert len(set(test) & set(train)) / len(set(test)) > 0.9


def test_the_split_follows_the_seed() -> None:
    first, again, other = (parts(alphabet_tasks(drawings(), seed, JITTER)[0]) for seed in (0, 0, 1))
    assert first == again
    assert first[2] != other[2]


def test_validation_and_test_show_the_drawings_as_they_are() -> None:
    task = alphabet_tasks(drawings(), seed=0, jitter=JITTER)[1]
    assert task.test is not None
    inputs = task.test.batch(torch.arange(len(task.test))).inputs
    expected = drawings().inputs[seen(task.test)].float()[:, None] / 255
    assert torch.allclose(inputs, expected)
