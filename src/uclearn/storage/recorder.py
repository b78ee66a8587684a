"""Writing the folder of a run (see `records`), so that it can be interrupted at any moment.

A checkpoint remembers the recorder's `position` (see `uclearn.session`). What was recorded after it
is taken back by `rewind` and recorded again, so an interrupted run ends with the same events as one
that never was.

`environment` says on what a result was made: versions, source, machine. It asks the packages'
metadata, so that nothing heavy is imported.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypedDict

from uclearn.errors import DataError
from uclearn.storage.files import (
    FolderLock,
    read_lines,
    refusal,
    sweep,
    truncate_lines,
)
from uclearn.storage.records import (
    CONFIG_NAME,
    EVENTS_NAME,
    FORMAT,
    SCHEMA,
    SUMMARY_NAME,
    Summary,
    plain,
    read_document,
    read_summary,
)
from uclearn.storage.sealed import Document, append_sealed, write_sealed


class RunRecorder:
    """A run's folder, held for writing until `close`; made by `open_run`."""

    def __init__(self, folder: Path, lock: FolderLock) -> None:
        self.folder, self._lock = folder, lock
        self._events = folder / EVENTS_NAME
        self.position = len(read_lines(self._events)) if self._events.exists() else 0
        """How many events are recorded: what a checkpoint should remember, for `rewind`."""
        self.summary = read_summary(folder)
        """The outcome, once the run is complete."""

    def append(self, event: str, details: Mapping[str, Any]) -> None:
        """Record that something was found; on return it is on the disk."""
        if self.summary is not None:
            raise DataError(
                f"The run in {self.folder} is complete and takes no further events. Rewind it, or "
                "choose another folder."
            )
        if taken := {"schema", "event"} & details.keys():
            raise DataError(
                f"`details` must not have the key {taken.pop()!r}: it is uclearn's own."
            )
        document = {"schema": SCHEMA, "event": event, **plain(details, "details")}
        append_sealed(self._events, document, self.position)
        self.position += 1

    def rewind(self, position: int) -> None:
        """Keep the first `position` events and forget the rest, and the summary made of them."""
        if not 0 <= position <= self.position:
            raise DataError(
                f"`position` must lie between 0 and the {self.position} events in {self._events}, "
                f"got {position}. If a checkpoint asks for more than there are, they were deleted "
                "after it was saved: start afresh in an empty folder."
            )
        if position == self.position:
            return
        (self.folder / SUMMARY_NAME).unlink(missing_ok=True)
        self.summary = None
        truncate_lines(self._events, position)
        self.position = position

    def finish(self, summary: Summary) -> None:
        """Record the outcome. The run is then complete."""
        document = {**summary.to_document(), "events": self.position}
        write_sealed(self.folder / SUMMARY_NAME, document)
        self.summary = summary

    def close(self) -> None:
        """Let another process write to the folder."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_run(folder: Path, config: Mapping[str, Any], message: str) -> RunRecorder:
    """Begin a run in `folder`, or open the one that is there for going on.

    The folder is made if absent and held by this process; `message` tells a second one what this
    one does. A run that was begun with another `config` is refused.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal("make", folder, error, "Choose another folder.") from error
    wanted = plain(config, "config")
    lock = FolderLock(folder, message)
    lock.acquire()
    try:
        _prepare(folder, wanted)
        return RunRecorder(folder, lock)
    except BaseException:
        lock.release()
        raise


def _prepare(folder: Path, config: Document) -> None:
    sweep(folder)
    path = folder / CONFIG_NAME
    begun = read_document(path)
    if begun is not None:
        if differences := _differences(begun["config"], config, "config"):
            raise DataError(
                f"{folder} holds a run with other settings: {'; '.join(differences)}. Choose "
                "another folder, or the same settings."
            )
        return
    for name in (EVENTS_NAME, SUMMARY_NAME):
        if (folder / name).exists():
            raise DataError(
                f"{folder} holds {name} but no {CONFIG_NAME}, so it cannot be gone on with. Choose "
                "another folder."
            )
    about = {"config": config, "environment": environment()}
    write_sealed(path, {"format": FORMAT, "schema": SCHEMA, **about})


def _differences(there: Any, wanted: Any, place: str) -> list[str]:
    if isinstance(there, dict) and isinstance(wanted, dict):
        pairs = {
            key: (there.get(key, "absent"), wanted.get(key, "absent")) for key in there | wanted
        }
        each = (_differences(*pair, f"{place}.{key}") for key, pair in pairs.items())
        return list(chain.from_iterable(each))
    # 1 == 1.0 == True in Python, but not in a file.
    same = json.dumps(there, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    return [] if same else [f"`{place}` is {there!r} there and {wanted!r} here"]


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
    machine = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory": _memory(),
    }
    return Environment(versions=_versions(), git_commit=_git_commit(), machine=machine)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):  # used from a source folder, or not installed at all
            found[package] = version(package)
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


def _processor() -> str:
    with suppress(OSError):  # elsewhere than on Linux
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return None


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
