"""Command lines that nobody thought of: a short share of them, always the same. `make fuzz` goes on
for as long as it is let."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.commands import command_lines, leaves
from tests.fuzz.driving import started, typed

pytestmark = pytest.mark.slow


@settings(
    max_examples=120,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(command_lines())
def test_whatever_is_typed_ends_in_words_and_an_exit_code(words: list[str]) -> None:
    ended = typed(words)
    assert not ended.faults(), ended.told()


def test_every_command_is_among_them() -> None:
    found = {" ".join(way) for way, _ in leaves()}
    assert {"run", "compare", "learn", "predict", "report", "rl run", "data", "data get"} <= found


def test_a_process_of_its_own_ends_in_the_same_way() -> None:
    words = ["runs", "runs", "--csv", "a\udcff"]
    ended, alone = typed(words), started(words)
    assert not alone.faults(), alone.told()
    assert (alone.code, alone.out, alone.err) == (ended.code, ended.out, ended.err)
