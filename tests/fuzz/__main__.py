"""`make fuzz`: random and hostile command lines, until the time is over. Every fault is printed
with the line that led to it.

    FUZZ_SECONDS=3600 FUZZ_SEED=1 python -m tests.fuzz
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

import hypothesis
import torch

from tests.fuzz.commands import command_lines
from tests.fuzz.driving import Ended, started, typed

BATCH = 12
"""Lines per search of Hypothesis: in long ones it tries variations of what it has tried."""
PROCESSES = 150
"""One line in so many is a process of its own."""


def main(seconds: float, seed: int) -> int:
    """Exit code 1 if there was a fault."""
    torch.set_num_threads(1)
    end, codes = time.monotonic() + seconds, Counter[int]()
    count = faults = 0
    seen: set[tuple[str, ...]] = set()
    settings = hypothesis.settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def look(words: list[str]) -> None:
        nonlocal count, faults
        if time.monotonic() > end or tuple(words) in seen:
            return
        seen.add(tuple(words))
        ended: Ended = (started if count % PROCESSES == PROCESSES - 1 else typed)(words)
        count += 1
        codes[ended.code] += 1
        if ended.faults():
            faults += 1
            _say(f"--- fault {faults}, line {count}: {ended.told()}")

    while time.monotonic() < end:
        hypothesis.seed(seed)(settings(hypothesis.given(command_lines())(look)))()
        seed += 1
        if seed % 20 == 0:
            _say(f"{count} lines, {faults} faults, by exit code {dict(sorted(codes.items()))}")
    _say(f"{count} lines, {faults} faults, by exit code {dict(sorted(codes.items()))}")
    return min(faults, 1)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = os.environ
    sys.exit(main(float(given.get("FUZZ_SECONDS", "3600")), int(given.get("FUZZ_SEED", "0"))))
