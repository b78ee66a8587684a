"""A command as it is typed, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.runs.small import OPTIONS


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Uclearn = Callable[..., Said]


def run_small(uclearn: Uclearn, *words: str) -> Said:
    """One run that takes a blink."""
    return uclearn("run", "split-digits", *OPTIONS, *words)
