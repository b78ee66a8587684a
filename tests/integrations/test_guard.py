"""A guard judges an update as a whole, also one that was interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import uclearn
from uclearn.errors import CheckpointError
from uclearn.integrations.guard import Guard
from uclearn.storage import checkpoint

X = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))


def method() -> uclearn.Method:
    torch.manual_seed(1)
    return uclearn.Method(nn.Linear(2, 2))


def guard(of: uclearn.Method, name: str = "january") -> Guard:
    return Guard(of, uclearn.Gate(), {name: (X, method().model(X).argmax(1))})


def ruin(of: uclearn.Method) -> None:
    for parameter in of.model.parameters():
        parameter.data.neg_()


def test_an_update_that_goes_on_elsewhere_is_compared_with_where_it_began(tmp_path: Path) -> None:
    first = method()
    begun = guard(first)
    begun.begin()
    ruin(first)
    checkpoint.save(tmp_path / "guard", begun.state_dict(), "guard")

    other = method()
    ruin(other)  # as the checkpoint has it
    going_on = guard(other)
    going_on.load_state_dict(checkpoint.load(tmp_path / "guard", "guard"))
    going_on.begin()
    assert going_on.end() is False
    assert "Task 'january' went from 100.0% to 0.0%" in going_on.reason
    assert all(map(torch.equal, other.model.parameters(), method().model.parameters()))


def test_the_state_of_other_canaries_is_refused() -> None:
    begun = guard(method())
    begun.begin()
    with pytest.raises(CheckpointError, match="those of january instead of february"):
        guard(method(), "february").load_state_dict(begun.state_dict())
