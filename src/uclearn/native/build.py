"""The library is found or made: compiled for this machine, once, and kept in the cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("kernels.c")
SWITCH = "UCLEARN_NATIVE"
"""In the environment: `0` leaves everything to torch."""
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-fopenmp")
_SECONDS = 120
"""A compiler that takes longer is not waited for."""


def in_use() -> str:
    """Who does the work on every weight here: `"native"`, or `"torch"` and why, for records."""
    found = library()
    return f"torch ({found})" if isinstance(found, str) else "native"


@functools.cache
def library() -> ctypes.CDLL | str:
    """The library, or why there is none. Asked once per process."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0"
    if not sys.platform.startswith("linux"):
        return "only on Linux"  # where torch and a compiler share one pool of threads
    try:
        return _loaded(_compiled())
    except (OSError, subprocess.SubprocessError, _UnusableError) as error:
        return str(error).splitlines()[0]


class _UnusableError(Exception):
    """No library, for a reason that is no fault of the user's."""


def _loaded(path: Path) -> ctypes.CDLL:
    import torch  # its pool of threads must be there first: the library joins it

    found = ctypes.CDLL(str(path))
    if torch.backends.openmp.is_available() and len(_thread_pools()) > 1:
        raise _UnusableError("torch has another pool of threads than this compiler")
    return found


def _thread_pools() -> set[str]:
    """The libraries of OpenMP in this process: two of them would fight for the cores."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split(maxsplit=5)[-1] for line in lines if "omp" in line and ".so" in line}
    return {name for name in names if Path(name).name.startswith(("libgomp", "libiomp", "libomp"))}


def _compiled() -> Path:
    place = cache_folder() / f"kernels-{_fingerprint()}.so"
    if place.exists():
        return place
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise _UnusableError("no C compiler")
    place.parent.mkdir(parents=True, exist_ok=True)
    # several processes may come here at once: each makes its own, the last one to end is kept
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        command = [*compiler.split(), *FLAGS, str(SOURCE), "-o", str(made), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            raise _UnusableError(f"{compiler} failed: {(done.stderr or 'no message').strip()}")
        made.replace(place)
    return place


def cache_folder() -> Path:
    """Where the library is kept (on Linux ~/.cache/uclearn/native)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "uclearn" / "native"


def _fingerprint() -> str:
    """Of the source, and of the machine that it is compiled for."""
    told = hashlib.sha256(SOURCE.read_bytes())
    told.update(" ".join((platform.machine(), *FLAGS, *_processor())).encode())
    return told.hexdigest()[:16]


def _processor() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    wanted = ("flags", "Features", "model name", "isa")
    return sorted({line for line in lines if line.startswith(wanted)})
