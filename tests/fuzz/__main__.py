"""`make fuzz`: random and hostile command lines, until the time is over. Every fault is printed
with the line that led to it.

    FUZZ_SECONDS=3600 FUZZ_SEED=1 python -m tests.fuzz
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

import torch

from tests.fuzz.commands import distinct
from tests.fuzz.driving import started, typed

AT_ONCE = 100
PROCESSES = 150
"""One line in so many is a process of its own."""


def main(seconds: float, seed: int) -> int:
    """Exit code 1 if there was a fault."""
    torch.set_num_threads(1)
    end, codes = time.monotonic() + seconds, Counter[int]()
    count = faults = 0
    while time.monotonic() < end:
        for words in distinct(AT_ONCE, 1000 * seed + count):
            count += 1
            ended = (typed if count % PROCESSES else started)(words)
            codes[ended.code] += 1
            if ended.faults():
                faults += 1
                _say(f"--- fault {faults}, line {count}: {ended.told()}")
            if time.monotonic() > end:
                break
        _say(f"{count} lines, {faults} faults, by exit code {dict(sorted(codes.items()))}")
    return min(faults, 1)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = os.environ
    sys.exit(main(float(given.get("FUZZ_SECONDS", "3600")), int(given.get("FUZZ_SEED", "0"))))
