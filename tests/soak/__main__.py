"""`make soak`: commands killed, disks filled, clocks moved, files damaged, folders shared. Prints a
table: tried, survived, lost. What is lost is told case by case, and ends with exit code 1.

    SOAK_TIMES=20 SOAK_SEED=1 python -m tests.soak
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

from tests.soak.ordeals import soak


def main(times: int, seed: int) -> int:
    """Exit code 1 if anything was lost."""
    with tempfile.TemporaryDirectory(prefix="uclearn-soak-") as folder:
        table = []
        lost = 0
        _say(f"{'ordeal':<26}{'tried':>8}{'survived':>10}{'lost':>6}  on the way")
        for row in soak(Path(folder), random.Random(seed), times):
            table.append(row)
            survived = row.tried - len(row.lost)
            _say(f"{row.name:<26}{row.tried:>8}{survived:>10}{len(row.lost):>6}  {row.note}")
            lost += len(row.lost)
        for row in table:
            for case in row.lost:
                _say(f"--- {row.name}: {case}")
    return min(lost, 1)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = os.environ
    sys.exit(main(int(given.get("SOAK_TIMES", "20")), int(given.get("SOAK_SEED", "0"))))
