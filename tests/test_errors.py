"""What is refused: one base for all, also caught as an error of Python; names that are near."""

from __future__ import annotations

import inspect

import pytest

from uclearn import errors
from uclearn.choices import no_such
from uclearn.errors import UclearnError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_caught_by_the_base_and_by_a_kind_of_python(kind: type[Exception]) -> None:
    assert issubclass(kind, UclearnError)
    builtin = [base for base in kind.__mro__ if base.__module__ == "builtins"]
    assert kind is UclearnError or issubclass(builtin[0], ValueError | TypeError | RuntimeError)


def test_a_name_far_from_all_gets_no_suggestion_and_all_that_are_known() -> None:
    assert no_such("method", "xyz", ["ewc", "ucl"]) == "There is no method 'xyz'. Known: ewc, ucl."
    assert no_such("method", "xyz", []) == "There is no method 'xyz'. Known: none yet."
