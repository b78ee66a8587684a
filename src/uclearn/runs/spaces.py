"""What is searched when settings are tuned: ranges and choices, and those that come by default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from uclearn.errors import SettingError
from uclearn.methods.registry import parts
from uclearn.runs.resolve import parse_value, preset_document
from uclearn.runs.supervised import SUPERVISED


class Suggesting(Protocol):
    """What a range or a choice asks for a value: a trial of Optuna."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = ...) -> float:
        """A number."""
        ...

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = ...) -> int:
        """A whole number."""
        ...

    def suggest_categorical(self, name: str, choices: tuple[Any, ...]) -> Any:
        """One of several."""
        ...


class Range(NamedTuple):
    """Numbers from `low` to `high`, both included; whole ones if both are."""

    low: float
    high: float
    log: bool = False
    """Each order of magnitude counts alike."""

    def suggest(self, trial: Suggesting, key: str) -> float:
        """The value that a trial takes."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(key, self.low, self.high, log=self.log)
        return trial.suggest_float(key, self.low, self.high, log=self.log)

    def points(self, count: int) -> list[float]:
        """So many values from end to end.

        >>> Range(0.01, 1.0, log=True).points(3)
        [0.01, 0.1, 1.0]
        >>> Range(1, 4).points(9)
        [1, 2, 3, 4]
        """
        there = math.log if self.log else float
        back = math.exp if self.log else float
        start, stop = there(self.low), there(self.high)
        steps = max(count - 1, 1)
        inner = [back(start + (stop - start) * i / steps) for i in range(1, steps)]
        if isinstance(self.low, int) and isinstance(self.high, int):
            return list(dict.fromkeys([self.low, *map(round, inner), self.high]))
        return [self.low, *(float(f"{value:.4g}") for value in inner), self.high][:count]


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

SPACES: dict[str, dict[str, Range]] = {
    "ucl": {
        "beta": Range(1e-5, 0.1, log=True),
        "sigma": Range(0.01, 0.3, log=True),
        "ratio": Range(0.05, 0.9),
        "alpha": Range(0.001, 10.0, log=True),
        "lr_sigma": Range(0.0003, 0.1, log=True),
    },
    "ewc": {"strength": Range(1.0, 1e8, log=True)},
    "si": {"strength": Range(0.003, 100.0, log=True)},
    "mas": {"strength": Range(0.001, 10.0, log=True)},
    "rwalk": {"strength": Range(0.03, 100.0, log=True)},
    "lwf": {"strength": Range(0.03, 10.0, log=True)},
    "vcl": {
        "initial_log_variance": Range(-12.0, -2.0),
        "prior_variance": Range(0.01, 100.0, log=True),
    },
    "hat": {"strength": Range(0.05, 5.0, log=True), "smax": Range(50.0, 2000.0, log=True)},
    "replay": {"share": Range(0.1, 0.9)},
}
"""By part of a method: ranges around the published values, which contain all that the authors of
the paper tried. A setting that a preset leaves at none is not searched."""


def default_space(benchmark: str, method: str, preset: str = "best") -> dict[str, Range | Choice]:
    """What is searched for a method unless it is said otherwise.

    >>> list(default_space("permuted-mnist", "ewc"))
    ['ewc.strength']
    """
    settings = preset_document(SUPERVISED, benchmark, method, preset)["settings"]
    return {
        f"{part}.{key}": each
        for part in parts(method)
        for key, each in SPACES.get(part, {}).items()
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
