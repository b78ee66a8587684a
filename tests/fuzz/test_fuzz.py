"""Command lines that nobody thought of: a short share of them, always the same. `make fuzz` goes on
for as long as it is let."""

from __future__ import annotations

import pytest

from tests.fuzz.commands import distinct, leaves
from tests.fuzz.driving import started, typed

pytestmark = pytest.mark.slow


def test_whatever_is_typed_ends_in_words_and_an_exit_code() -> None:
    lines = distinct(120, seed=0)
    faulty = [ended for words in lines if (ended := typed(words, patience=1.0)).faults()]
    assert not faulty, "\n\n".join(ended.told() for ended in faulty)


def test_every_command_is_among_them() -> None:
    found = {" ".join(way) for way, _ in leaves()}
    assert {"run", "compare", "learn", "predict", "report", "rl run", "data", "data get"} <= found


def test_a_process_of_its_own_ends_in_the_same_way() -> None:
    words = ["runs", "runs", "--csv", "a\udcff"]
    ended, alone = typed(words), started(words)
    assert not alone.faults(), alone.told()
    assert (alone.code, alone.out, alone.err) == (ended.code, ended.out, ended.err)
