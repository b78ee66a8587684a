"""What may go wrong around a process: a disk that is full, a clock that jumps, a network folder
that is slow and fails. Each spoils the system calls of the process that it is called in."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from typing import Any

CALLS = ("open", "write", "fsync", "replace", "link", "ftruncate", "unlink")
_PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)


def nothing(chance: random.Random) -> None:
    """All is well."""


def full_disk(chance: random.Random) -> None:
    """After some bytes no more are taken; of the last ones a part."""
    left, write = chance.randint(0, 12_000), os.write

    def limited(descriptor: int, data: Any) -> int:
        nonlocal left
        if descriptor <= 2:
            return write(descriptor, data)
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(descriptor, memoryview(data)[:left])
        left -= taken
        return taken

    setattr(os, "write", limited)  # noqa: B010


def jumping_clock(chance: random.Random) -> None:
    """Each look at the clock may find it years ahead or behind, the monotonic ones hours ahead."""
    for name, back in (("time", -1e9), ("monotonic", 0.0), ("perf_counter", 0.0)):
        setattr(time, name, _jumping(getattr(time, name), chance, back))


def _jumping(clock: Callable[[], float], chance: random.Random, back: float) -> Callable[[], float]:
    shift = 0.0

    def jumped() -> float:
        nonlocal shift
        if chance.random() < 0.05:
            shift = max(shift, 0.0) if back == 0.0 else 0.0
            shift += chance.uniform(back, 1e4 if back == 0.0 else 1e9)
        return clock() + shift

    return jumped


def network_folder(chance: random.Random) -> None:
    """Every call on a file takes its time, and one in a hundred fails."""
    for name in CALLS:
        setattr(os, name, _unreliable(getattr(os, name), name, chance))


def _unreliable(call: Callable[..., Any], name: str, chance: random.Random) -> Callable[..., Any]:
    def tried(*arguments: Any, **options: Any) -> Any:
        if name == "write" and arguments[0] <= 2:
            return call(*arguments, **options)
        time.sleep(chance.uniform(0.0, 0.002))
        if chance.random() < 0.01:
            reason = chance.choice(_PASSING)
            raise OSError(reason, os.strerror(reason))
        return call(*arguments, **options)

    return tried
