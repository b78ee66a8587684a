"""The library is found or made: it comes with the package, or is compiled for this machine, once,
and kept in the cache folder.

A wheel that was built where a compiler is (`hatch_build.py`) has one for each level of processors
in `LEVELS`. This file needs nothing but Python's own library: the wheel's builder uses it, too.
"""

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

SOURCES = Path(__file__).with_name("kernels")
"""A folder of C; libraries that come with the package lie in it, too."""
SWITCH = "UCLEARN_NATIVE"
"""In the environment: `0` leaves everything to torch."""
FLAGS = ("-O3", "-fno-math-errno", "-shared", "-fPIC", "-fopenmp")
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
        "x86-64-v3": ("avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
    },
    "aarch64": {"armv8-a": ("fp", "asimd")},
}
"""By architecture, best first: what a library is compiled for, and what a processor announces that
can run it."""
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
        return _loaded(_prebuilt() or _compiled())
    except (OSError, subprocess.SubprocessError, UnusableError) as error:
        return str(error).splitlines()[0]


class UnusableError(Exception):
    """No library, for a reason that is no fault of the user's."""


def _loaded(path: Path) -> ctypes.CDLL:
    import torch  # its pool of threads must be there first: the library joins it

    found = ctypes.CDLL(str(path))
    if torch.backends.openmp.is_available() and len(_thread_pools()) > 1:
        raise UnusableError("torch has another pool of threads than this compiler")
    return found


def _thread_pools() -> set[str]:
    """The libraries of OpenMP in this process: two of them would fight for the cores."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split(maxsplit=5)[-1] for line in lines if "omp" in line and ".so" in line}
    return {name for name in names if Path(name).name.startswith(("libgomp", "libiomp", "libomp"))}


def _prebuilt() -> Path | None:
    """The one that came with the package for a processor like this, if any."""
    flags = {flag for line in _processor() for flag in line.partition(":")[2].split()}
    for level, needed in LEVELS.get(platform.machine(), {}).items():
        place = SOURCES / prebuilt_name(level)
        if flags.issuperset(needed) and place.exists():
            return place
    return None


def prebuilt_name(level: str) -> str:
    """Of the file beside the sources."""
    return f"kernels-{level}.so"


def _compiled() -> Path:
    place = cache_folder() / f"kernels-{_fingerprint()}.so"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    # several processes may come here at once: each makes its own, the last one to end is kept
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        compile_for("native", made)
        made.replace(place)
    return place


def compile_for(level: str, place: Path) -> None:
    """Compile the library for processors of some level into the file `place`."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise UnusableError("no C compiler")
    files = [str(file) for file in sorted(SOURCES.glob("*.c"))]
    command = [*compiler.split(), *FLAGS, f"-march={level}", *files, "-o", str(place), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise UnusableError(f"{compiler} failed: {(done.stderr or 'no message').strip()}")


def cache_folder() -> Path:
    """Where the library is kept (on Linux ~/.cache/uclearn/native)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "uclearn" / "native"


def _fingerprint() -> str:
    """Of the source, and of the machine that it is compiled for."""
    told = hashlib.sha256()
    for file in sorted(SOURCES.glob("*.[ch]")):
        told.update(file.read_bytes())
    told.update(" ".join((platform.machine(), *FLAGS, *_processor())).encode())
    return told.hexdigest()[:16]


def _processor() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    wanted = ("flags", "Features", "model name", "isa")
    return sorted({line for line in lines if line.startswith(wanted)})
