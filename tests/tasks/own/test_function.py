"""`module:function`, from the folder where the command is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from uclearn.errors import DataError, SettingError
from uclearn.tasks.own.source import own_data

PROGRAM = """
import torch
from uclearn.tasks import Data, permuted

def make(seed):
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed({start} + seed))
    data = Data(x, (x[:, 0] > 0).long())
    return permuted(data, data, 3, seed)

def nothing():
    return 3

number = 7
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of its own for each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = "program_" + "".join(c for c in request.node.name if c.isalnum())
    (tmp_path / f"{name}.py").write_text(PROGRAM.format(start=0))
    return name


def test_a_function_makes_the_tasks(program: str) -> None:
    made = own_data(f"{program}:make")
    assert (made.tasks, made.classes, made.input_shape) == (3, (2, 2, 2), (5,))
    assert made.name.startswith("make-")
    assert len(made.build(1, None, 2)) == 2


def test_what_it_makes_is_held_to_its_fingerprint(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    made = own_data(f"{program}:make")
    (tmp_path / f"{program}.py").write_text(PROGRAM.format(start=100))
    monkeypatch.delitem(sys.modules, program)
    with pytest.raises(DataError, match="have changed since this run was begun"):
        made.build(1, None, 3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "must return a uclearn.tasks.TaskSequence, got int"),
        ("number", "must be a function, got int"),
        ("absent", "cannot be imported"),
    ],
)
def test_what_makes_no_tasks_is_refused(program: str, name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        own_data(f"{program}:{name}")


def test_options_mean_nothing_for_it(program: str) -> None:
    with pytest.raises(SettingError, match=r"`--split` says nothing about"):
        own_data(f"{program}:make", split=2)
