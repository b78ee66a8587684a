"""On what a result was made: versions, source, machine. Asks the packages' metadata, so that
nothing heavy is imported."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

PACKAGES = ("uclearn", "torch", "numpy", "safetensors")


class Environment(TypedDict):
    """What `environment` returns, as it stands in the files."""

    versions: dict[str, str]
    """By package, and of Python."""
    git_commit: str | None
    """Of uclearn's source, followed by `-dirty` if it was changed since; None if installed."""
    machine: dict[str, str | int | None]
    """System, architecture, processor, number of processors and bytes of memory; no names."""


def environment() -> Environment:
    """The versions, source and machine of this process."""
    return Environment(versions=_versions(), git_commit=_git_commit(), machine=_machine())


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # used from a source folder, or not installed at all
            continue
    return found


def _git_commit() -> str | None:
    # A package installed inside somebody's repository lies in it without being part of it.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _machine() -> dict[str, str | int | None]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory": _memory(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:  # not Linux
        pass
    return platform.processor()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return None
