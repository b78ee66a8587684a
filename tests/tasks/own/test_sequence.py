"""From a file to tasks: what is in them, what is held apart, at which scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.own.files import blobs, write_csv, write_npz
from uclearn.errors import UclearnError
from uclearn.tasks import TaskSequence
from uclearn.tasks.own.source import own_data


def tasks_of(path: Path, seed: int = 0, **said: object) -> TaskSequence:
    made = own_data(path, **said)
    return made.build(seed, None, made.tasks)


def test_split_gives_each_task_its_classes_and_every_example_once(tmp_path: Path) -> None:
    tasks = tasks_of(write_npz(tmp_path / "four.npz"), split=2)
    assert [task.name for task in tasks] == ["0/1", "2/3"]
    assert tasks.heads
    for task in tasks:
        assert task.test is not None
        # a fifth of 30 of each class, and the rest
        assert task.test.all_targets().bincount().tolist() == [6, 6]
        assert task.train.all_targets().bincount().tolist() == [24, 24]
    rows = [part.rows for task in tasks for part in (task.train, task.test)]  # type: ignore[union-attr]
    assert sorted(torch.cat(rows).tolist()) == list(range(120))


def test_the_test_part_follows_the_seed(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "four.npz")
    first, again, other = (tasks_of(path, seed, split=2)[0].test.rows for seed in (0, 0, 1))  # type: ignore[union-attr]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_inputs_are_at_the_scale_of_the_first_task(tmp_path: Path) -> None:
    x, y = blobs()
    tasks = np.arange(len(y)) // 60
    x[tasks == 1] += 100
    made = tasks_of(write_npz(tmp_path / "drift.npz", x=x, y=y, task=tasks))
    first, second = (task.train.batch(torch.arange(len(task.train))).inputs for task in made)
    assert first.mean(0).abs().max() < 1e-4
    assert first.std(0, correction=0).sub(1).abs().max() < 1e-4
    assert second.mean() > 20  # it is not told where the second lies


@pytest.mark.parametrize(
    ("scenario", "heads", "classes"), [("task", True, (2, 2)), ("class", False, (2, 4))]
)
def test_scenarios(tmp_path: Path, scenario: str, heads: bool, classes: tuple[int, ...]) -> None:
    tasks = tasks_of(write_npz(tmp_path / "four.npz"), split=2, scenario=scenario)
    assert (tasks.heads, tasks.classes) == (heads, classes)
    labels = tasks[1].train.all_targets().unique().tolist()
    assert labels == ([0, 1] if heads else [2, 3])


def test_classes_are_numbered_as_they_come(tmp_path: Path) -> None:
    """A task may bring one class, or none; what came first has the first output."""
    _, y = blobs()
    tasks = np.select([y == 3, y == 1], [0, 1], 2)  # then 0 and 2
    tasks[(y == 3) & (np.arange(len(y)) % 8 == 3)] = 3  # once more
    path = write_npz(tmp_path / "late.npz", task=tasks)
    made = tasks_of(path, scenario="class")
    assert made.classes == (1, 2, 4, 4)
    labels = [sorted(set(task.train.all_targets().tolist())) for task in made]
    assert labels == [[0], [1], [2, 3], [0]]


def test_a_split_of_ones_own_is_kept(tmp_path: Path) -> None:
    split = np.array(["train", "test", "validation", "train"] * 30)
    path = write_npz(tmp_path / "told.npz", y=np.arange(120) // 4 % 3, split=split)
    task = tasks_of(path, permute=2)[0]
    assert task.valid is not None
    assert (len(task.train), len(task.valid), len(task.test)) == (60, 30, 30)  # type: ignore[arg-type]


_HEADS = ["heat", "label"]


def _npz(**arrays: object) -> object:
    return lambda folder: write_npz(folder / "a.npz", **arrays)


def _csv(*rows: Sequence[object], names: list[str] = _HEADS) -> object:
    return lambda folder: write_csv(folder / "a.csv", names, rows)


X, Y = blobs()
BROKEN = X.copy()
BROKEN[7, 2] = np.nan
GOOD = [[1, "ok"], [2, "worn"], [3, "ok"], [4, "worn"]]


@pytest.mark.parametrize(
    ("make", "said", "words"),
    [
        (_npz(x=BROKEN), {"split": 2}, ["a.npz, row 7 of x", "NaN", "Fill or remove"]),
        (_npz(y=np.r_[Y[:-1], 9]), {"split": 5}, ["row 119", "class '9'", "has 1 example", "Add"]),
        (_npz(y=X[:, 0]), {"split": 2}, ["float32", "--target y"]),
        (_npz(y=Y[:5]), {"split": 2}, ["y", "each of the 120 examples", "(5,)"]),
        (_npz(), {"split": 3}, ["--split", "at least two classes", "4 classes"]),
        (_npz(), {}, ["4 classes but no tasks", "--split 2", "--permute 10"]),
        (_npz(task=Y // 2), {"split": 2}, ["--split", "2 of its own"]),
        (_npz(task=Y // 2), {"scenario": "domain"}, ["task '0'", "class '2'", "--scenario class"]),
        (_npz(split=["train", "tset"] * 60), {"split": 2}, ["row 1 of split", "'tset'"]),
        (
            _npz(split=np.where(Y == 3, "test", np.where(np.arange(120) % 8 < 4, "train", "test"))),
            {"split": 2},
            ["row 3", "label '3'", "cannot be learned"],
        ),
        (
            _csv(*GOOD, ["hot", "ok"]),
            {"permute": 2},
            ["a.csv, row 6, column heat", "expected a number", "'hot'", "--categories heat"],
        ),
        (_csv(*GOOD, [1]), {"permute": 2}, ["row 6", "expected 2 cells, found 1"]),
        (_csv(*GOOD, [5, ""]), {"permute": 2}, ["row 6, column label", "empty cell"]),
        (_csv(*GOOD, ["inf", "ok"]), {"permute": 2}, ["row 6, column heat", "32 bits", "'inf'"]),
        (_csv(*GOOD), {"label": "kind"}, ["no column 'kind'", "heat, label"]),
        (_csv(names=["heat", "heat", "label"]), {}, ["two columns of one name", "'heat'"]),
        (_csv(), {}, ["at least one row"]),
        (
            _csv(*[[f"person {k}", "ok"] for k in range(300)]),
            {"permute": 2},
            ["column heat", "300 different words", "--drop heat"],
        ),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_place(
    tmp_path: Path, make: object, said: dict[str, object], words: list[str]
) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(UclearnError) as error:
        own_data(path, **said)
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text
