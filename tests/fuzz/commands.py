"""Command lines, made from what the commands themselves declare."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import hypothesis
import typer
from hypothesis import strategies as st

from tests.fuzz.values import bare, hostile, value
from uclearn.cli.app import app

Words = tuple[str, ...]

SMALL = {
    "tasks": ("--tasks", "1"),
    "epochs": ("--epochs", "1"),
    "seeds": ("--seeds", "1"),
    "trials": ("--trials", "1"),
    "steps": ("--steps", "64"),
    "workers": ("--workers", "1"),
}
"""What keeps a command short, where it knows the option. Most lines have it."""
_SKIPPED = ("track",)
"""`--track` starts other people's programs; it is tested on its own."""
_SELDOM = {"doctor": 4, "watch": 2, "rl": 6, "tune": 4, "reproduce": 3}
"""Commands that take long whatever is asked: one in so many of the others."""


def leaves(command: Any = None, way: Words = ()) -> Iterator[tuple[Words, Any]]:
    """Every command that can be typed, with the words that lead to it."""
    command = typer.main.get_command(app) if command is None else command
    inner = getattr(command, "commands", {})
    for name, each in inner.items():
        yield from leaves(each, (*way, name))
    if not inner or getattr(command, "invoke_without_command", False):
        yield way, command


def _weighted() -> list[tuple[Words, Any]]:
    found = list(leaves())
    most = max(_SELDOM.values())
    return [leaf for leaf in found for _ in range(most // _SELDOM.get(leaf[0][0], 1))]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """The words behind `uclearn`."""
    way, command = draw(st.sampled_from(_weighted()))
    words = list(way)
    usual = draw(st.integers(0, 9)) < 9
    mood = draw(st.sampled_from((12, 12, 3)))  # one value in so many is hostile
    chance = min(30, 250 // (len(command.params) + 1))  # two or three options
    declared = inspect.signature(command.callback, eval_str=True).parameters
    for parameter in command.params:
        if parameter.name in declared and parameter.name not in _SKIPPED:
            kind = bare(declared[parameter.name].annotation)
            words += draw(_given(parameter, kind, mood, chance, small=usual))
    if usual and "benchmark" in declared and "settings" in declared:
        words += ["--set", "network.hidden=[8]"]
    if draw(st.integers(0, 19)) == 19:  # what no declaration asks for
        words.insert(draw(st.integers(0, len(words))), draw(hostile()))
    return words


@st.composite
def _given(
    draw: st.DrawFn, parameter: Any, kind: Any, mood: int, chance: int, *, small: bool
) -> list[str]:
    """What is typed for one parameter: an optional one with a `chance` in percent."""
    argument = parameter.param_type_name == "argument"
    if draw(st.integers(0, 99)) < (5 if parameter.required or argument else 100 - chance):
        return list(SMALL.get(parameter.name, ())) if small and not argument else []
    about = f"{getattr(parameter, 'help', '')} {parameter.metavar or ''}"
    if argument:
        count = 1 if parameter.nargs == 1 else draw(st.integers(0, 3))
        return [draw(value(kind, about, mood)) for _ in range(count)]
    name = draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))
    if parameter.is_flag:
        return [name]
    given = draw(value(kind, about, mood))
    if name.startswith("--") and draw(st.booleans()):
        return [f"{name}={given}"]
    return [name, given]


def distinct(count: int, seed: int) -> list[list[str]]:
    """So many different lines, the same for the same seed."""
    found: dict[Words, None] = {}

    @hypothesis.settings(
        max_examples=_AT_ONCE,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(command_lines())
    def note(words: list[str]) -> None:
        found[tuple(words)] = None

    while len(found) < count:
        hypothesis.seed(seed)(note)()
        seed += 1
    return [list(words) for words in list(found)[:count]]


_AT_ONCE = 12
"""Lines per search of Hypothesis: in long ones it tries variations of what it has tried."""
