"""What is searched when settings are tuned: ranges and choices, and those that come by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from uclearn.errors import SettingError
from uclearn.methods.facts import Range, Suggesting
from uclearn.methods.registry import facts, parts
from uclearn.runs.resolve import parse_value, preset_document
from uclearn.runs.supervised import SUPERVISED


class Choice(NamedTuple):
    """One of several values."""

    values: tuple[Any, ...]

    def suggest(self, trial: Suggesting, key: str) -> Any:
        """The value that a trial takes."""
        return trial.suggest_categorical(key, self.values)

    def points(self, count: int) -> list[Any]:
        """All of them."""
        return list(self.values)


Space = Mapping[str, Range | Choice]
"""By dotted key what may be tried."""


def default_space(benchmark: str, method: str, preset: str = "best") -> dict[str, Range | Choice]:
    """What is searched for a method unless it is said otherwise.

    >>> list(default_space("permuted-mnist", "ewc"))
    ['ewc.strength']
    """
    settings = preset_document(SUPERVISED, benchmark, method, preset)["settings"]
    return {
        f"{part}.{key}": each
        for part in parts(method)
        for key, each in facts(part).search.items()
        if settings[part][key] is not None
    }


def parse_space(texts: Iterable[str]) -> dict[str, Range | Choice]:
    """`key=low..high`, with `:log` behind it where orders of magnitude count, or `key=a,b,c`.

    >>> parse_space(["ucl.beta=1e-4..1e-1:log", "ucl.sampling=local,weight"])["ucl.beta"]
    Range(low=0.0001, high=0.1, log=True)
    """
    found: dict[str, Range | Choice] = {}
    for text in texts:
        key, equals, values = (piece.strip() for piece in text.partition("="))
        if not (equals and key and values):
            raise SettingError(
                "A space is written `part.key=low..high`, `part.key=low..high:log` or "
                f"`part.key=a,b,c`, as `ucl.beta=1e-4..1e-1:log`, got {text!r}."
            )
        if ".." in values:
            found[key] = _range(key, values)
        else:
            found[key] = Choice(tuple(parse_value(each.strip(), key) for each in values.split(",")))
    return found


def _range(key: str, text: str) -> Range:
    ends, colon, scale = text.partition(":")
    low, high = (parse_value(end.strip(), key) for end in ends.split("..", 1))
    numbers = [end for end in (low, high) if isinstance(end, int | float) and end is not True]
    log = bool(colon)
    if len(numbers) < 2 or not low < high or (colon and scale.strip() != "log"):
        raise SettingError(
            f"The range of `{key}` must be two numbers, the smaller first, as 1e-4..1e-1 or "
            f"1e-4..1e-1:log, got {text!r}."
        )
    if log and low <= 0:
        raise SettingError(f"The range of `{key}` must be above 0 for :log, got {text!r}.")
    return Range(low, high, log)
