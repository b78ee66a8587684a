"""Side by side, interleaved, the best of several: ratios that a noisy machine cannot bend much."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Case = Callable[[], object]


@dataclass(frozen=True)
class Bar:
    """One line of the table: what was measured against what, and how much it may be."""

    name: str
    ratio: float
    limit: float
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the ratio is within its limit."""
        return self.ratio <= self.limit


def best_times(cases: Mapping[str, Case], rounds: int = 30, repeats: int = 5) -> dict[str, float]:
    """Seconds per call of each case: the smallest of `rounds` means over `repeats` calls, the cases
    taking turns so that all of them meet the same machine."""
    for case in cases.values():
        for _ in range(3):
            case()
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, case in cases.items():
            begin = time.perf_counter()
            for _ in range(repeats):
                case()
            best[name] = min(best[name], (time.perf_counter() - begin) / repeats)
    return best
