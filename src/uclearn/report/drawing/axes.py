"""The axes of a chart: from values to places, and what is written at them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Layout = Mapping[str, Any]


class Axis:
    """One axis from `start` to `end` (places), for `values` unless its layout says its range."""

    def __init__(self, layout: Layout, values: Sequence[float], start: float, end: float) -> None:
        self.layout, self.is_log = layout, layout.get("type") == "log"
        given = layout.get("range")
        low, high = given if given else _around([self._even(value) for value in values])
        self.low, self.high = (high, low) if layout.get("autorange") == "reversed" else (low, high)
        self.start, self.end = start, end

    def _even(self, value: float) -> float:
        return math.log10(value) if self.is_log else float(value)

    def place(self, value: float) -> float:
        """Where a value stands."""
        share = (self._even(value) - self.low) / ((self.high - self.low) or 1)
        return self.start + share * (self.end - self.start)

    @property
    def title(self) -> str:
        """What it is the axis of."""
        return str((self.layout.get("title") or {}).get("text") or "")

    def ticks(self) -> list[tuple[float, str]]:
        """Places that are named, with their names."""
        if self.layout.get("visible") is False:
            return []
        values = self.layout.get("tickvals")
        if values is None:
            ends = (min(self.low, self.high), max(self.low, self.high))
            values = nice(*ends, self.layout.get("nticks", 6))
        words = self.layout.get("ticktext") or [self._words(value) for value in values]
        low, high = sorted((self.low, self.high))
        reach = 1e-9 * (high - low)
        pairs = zip(values, words, strict=True)
        return [(v, w) for v, w in pairs if low - reach <= self._even(v) <= high + reach]

    def _words(self, value: float) -> str:
        if "%" in str(self.layout.get("tickformat", "")):
            return f"{round(100 * value, 1) + 0.0:g}%"
        for unit, letter in ((1e6, "M"), (1e3, "k")):
            if max(abs(self.low), abs(self.high)) >= 10 * unit / (10 if letter == "M" else 1):
                return f"{round(value / unit, 3) + 0.0:g}{letter}" if value else "0"
        return f"{value + 0.0:g}"


def _around(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad


def nice(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between `low` and `high`, at most so many.

    >>> nice(0.43, 0.97), nice(0, 1999, 4)
    ([0.5, 0.6, 0.7, 0.8, 0.9], [0, 500, 1000, 1500])
    """
    power = math.floor(math.log10(high - low)) - 1
    for exponent in range(power, power + 3):
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first < most:
                found = [round(k * step, 10) for k in range(first, last + 1)]
                return [int(value) if value == int(value) else value for value in found]
    return [low, high]
