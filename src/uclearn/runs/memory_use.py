"""How much memory this process has used at most."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Begin anew, where the system allows it (Linux): the next peak is that of what follows."""
    with suppress(OSError):
        _RESET.write_text("5")


def peak_memory() -> int | None:
    """Bytes of memory at the peak; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        lines = _STATUS.read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
