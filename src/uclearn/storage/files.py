"""Files that a crash cannot spoil: whole ones, and ones that grow line by line; and folders that
only one process at a time works in.

A whole file is either the old one or the new one, whatever happens in between. It is written aside
in the same folder, flushed to the disk and renamed over the old one: renaming within a folder is
the one step that a file system does entirely or not at all.

A file of lines is written by several processes and read at any moment. A line counts once its
newline is on the disk. What stands behind the last newline is a line that a crash tore: readers do
not see it, and the next writer removes it.

The lock of a folder belongs to the open file, not to the file's existence: the system releases it
when its owner dies, however it dies, so there is no stale lock to clean up.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Self

from uclearn.errors import DataError, UclearnError

Chunk = bytes | bytearray | memoryview


class StorageError(UclearnError, OSError):
    """A file or folder could not be read, written or locked; the cause holds the system's error."""


def refusal(action: str, path: Path, error: OSError, remedy: str) -> StorageError:
    """The error for a system call that failed: what was tried, on what, why, what to do."""
    return StorageError(f"Could not {action} {path}: {error.strerror or error}. {remedy}")


def write_chunks(path: Path, chunks: Iterable[Chunk], *, sync: bool = True) -> None:
    """Replace the file `path` by the concatenation of `chunks`, all at once.

    With `sync` it has reached the disk on return, and survives a power cut. Without, it survives
    the death of the process but the last seconds may be lost with the power; in both cases a
    reader sees the old contents or the new, never a mixture.
    """
    if _is_stream(path):
        _pour(path, chunks)
        return
    aside = aside_of(path)
    try:
        try:
            _create(aside, chunks, sync)
            aside.replace(path)
        except BaseException:  # Ctrl-C as well: leave no half-written file behind
            with suppress(OSError):
                aside.unlink()
            raise
    except OSError as error:
        remedy = "What stood there before is untouched; " + _remedy(error)
        raise refusal("write", path, error, remedy) from error
    if sync:
        _sync_folder(path.parent)


def write_text(path: Path, text: str, *, sync: bool = True) -> None:
    """Replace the file `path` by `text` in UTF-8, all at once (see `write_chunks`)."""
    write_chunks(path, [text.encode()], sync=sync)


def write_json(path: Path, value: object, *, sync: bool = True) -> None:
    """Replace the file `path` by `value` as indented JSON, all at once (see `write_chunks`).

    Only what JSON can say is accepted: NaN and infinity are not in it, and other programs refuse
    files that hold them.
    """
    try:
        text = json.dumps(value, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"`value` for {path} cannot be written as JSON: {error}.") from error
    write_text(path, text + "\n", sync=sync)


def read_json(path: Path) -> object:
    """The value that the JSON file `path` holds."""
    data = _read(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        raise DataError(
            f"{path} is not valid JSON: {error}. It is damaged or was not written by uclearn; "
            "restore or delete it."
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise refusal("read", path, error, "Check the path and the permissions.") from error


def aside_of(path: Path) -> Path:
    """A new name in the same folder under which the next contents of `path` may be prepared.

    Unique, so that two processes or threads that write the same file do not meet in it.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def remove_leftovers(path: Path) -> None:
    """Delete what killed processes left aside of `path`. For the only writer of that file."""
    _delete(path.parent.glob(f".{escape(path.name)}.*.tmp"))


def sweep(folder: Path) -> None:
    """Delete what killed processes left aside of any file in `folder`. For whoever holds its
    lock."""
    _delete(each for each in folder.glob(".*.tmp") if _ASIDE.fullmatch(each.name))


_ASIDE = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


def _delete(leftovers: Iterable[Path]) -> None:
    for leftover in list(leftovers):
        try:
            leftover.unlink(missing_ok=True)
        except OSError as error:
            raise refusal("delete", leftover, error, "Check its permissions.") from error


def _sync_folder(folder: Path) -> None:
    """Make the names in `folder`, after a rename, as durable as the files themselves."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder: there, nothing more can be done.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise refusal("sync", folder, error, "Check the disk.") from error


def _create(path: Path, chunks: Iterable[Chunk], sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(descriptor, chunks)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:  # the system may take less than it is given
            rest = rest[os.write(descriptor, rest) :]


def _is_stream(path: Path) -> bool:
    """A terminal, a pipe, /dev/null: written to, never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:  # not there, or cannot be looked at: writing says what is wrong
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _pour(path: Path, chunks: Iterable[Chunk]) -> None:
    try:
        with path.open("wb", buffering=0) as stream:
            _write_all(stream.fileno(), chunks)
    except OSError as error:
        raise refusal("write to", path, error, "Choose another place.") from error


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space and start again."
    if isinstance(error, FileNotFoundError):
        return "check that the folder exists and that no other process works in it."
    return "check the folder and its permissions."


_TAIL = 1 << 16  # bytes looked at in one go when searching the last newline


def append_line(path: Path, line: str, *, sync: bool = False) -> None:
    """Add `line` to the file `path` (made if absent) in one write, whole or not at all.

    Any number of processes may append to the same file. With `sync` the line is on the disk on
    return.
    """
    if "\n" in line:
        raise DataError(f"`line` must not contain a newline, got {line!r}. Append line by line.")
    data = line.encode() + b"\n"
    with _locked(path, "append to") as descriptor:
        end = _end_of_last_line(descriptor)
        if end < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, end)
        _write_whole(descriptor, data, end, path)
        if sync:
            os.fsync(descriptor)


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of the file `path`, without newlines; a torn last line is left out."""
    return _read(path).split(b"\n")[:-1]


def read_jsonl(path: Path) -> list[dict[str, object]]:
    """One dict per whole line of the file `path`; a torn last line is left out."""
    return [_parse(line, number, path) for number, line in enumerate(read_lines(path), start=1)]


def ends_whole(path: Path) -> bool:
    """Whether the file `path` ends with a whole line, or is empty."""
    return _read(path)[-1:] in (b"", b"\n")


def truncate_lines(path: Path, count: int) -> None:
    """Keep the first `count` lines of the file `path` (made if absent) and drop the rest."""
    with _locked(path, "shorten") as descriptor:
        lines = read_lines(path)
        if not 0 <= count <= len(lines):
            raise DataError(
                f"`count` must lie between 0 and the {len(lines)} lines of {path}, got {count}."
            )
        os.ftruncate(descriptor, sum(len(line) + 1 for line in lines[:count]))
        os.fsync(descriptor)


@contextmanager
def _locked(path: Path, action: str) -> Iterator[int]:
    """A descriptor of the file `path`, opened for appending and ours alone among all writers."""
    try:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            # Appending alone is atomic on local disks; the lock makes it so on network file
            # systems too, and lets a torn line be removed without hurting another writer.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)  # which unlocks
    except StorageError:
        raise
    except OSError as error:
        remedy = "Check the folder, its permissions and the space left."
        raise refusal(action, path, error, remedy) from error


def _write_whole(descriptor: int, data: bytes, end: int, path: Path) -> None:
    """Append all of `data`, or take back the part that a full disk let through."""
    try:
        written = os.write(descriptor, data)
    except OSError:
        os.ftruncate(descriptor, end)
        raise
    if written < len(data):
        os.ftruncate(descriptor, end)
        raise StorageError(
            f"Could not append to {path}: only {written} of {len(data)} bytes were taken, the "
            "disk is full. The file is as it was before; free some space and start again."
        )


def _end_of_last_line(descriptor: int) -> int:
    """The length of the file up to and including its last newline."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _TAIL)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _parse(line: bytes, number: int, path: Path) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"Line {number} of {path} is not valid JSON: {error}. The file is damaged; "
            "restore it or run again."
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"Line {number} of {path} must be a JSON object, got {value!r}.")
    return value


LOCK_NAME = ".lock"


class FolderBusyError(StorageError):
    """Another process works in this folder."""


class FolderLock:
    """Holds `folder` for this process, `with FolderLock(folder, "uclearn run"): ...`.

    `message` says what the owner does; whoever comes second reads it. Taking the lock never
    waits: it succeeds or raises `FolderBusyError`. Children that are forked while it is held share
    it, and keep it if they outlive their parent: they still work in the folder.
    """

    def __init__(self, folder: Path, message: str) -> None:
        self.folder, self.message = folder, message
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `FolderBusyError` that names the owner."""
        from filelock import lock_descriptor  # here: it takes a tenth of a second

        if self._descriptor is not None:
            raise FolderBusyError(f"This lock on {self.folder} is already held; release it first.")
        path = self.folder / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            remedy = "Check that the folder exists and may be written to."
            raise refusal("lock", self.folder, error, remedy) from error
        try:
            free = lock_descriptor(descriptor, blocking=False)
            if free:
                self._sign(descriptor)
        except OSError as error:
            os.close(descriptor)
            remedy = "Choose a folder on a file system that supports locks and has space left."
            raise refusal("lock", self.folder, error, remedy) from error
        if not free:
            os.close(descriptor)
            raise FolderBusyError(
                f"Folder {self.folder} is in use by {_owner(path)}. Wait until it has ended, or "
                "choose another folder."
            )
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._descriptor is None:
            return
        from filelock import unlock_descriptor

        # The file stays: were it deleted, a process that has just opened it would lock a file
        # without a name, and a third one a new file. Only the signature goes.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        unlock_descriptor(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None

    def _sign(self, descriptor: int) -> None:
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "message": self.message,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _owner(path: Path) -> str:
    """Who holds the lock, in words; the owner may be about to sign, so nothing is certain."""
    try:
        owner = json.loads(path.read_bytes())
        place = f"on {owner['host']}, since {owner['since']}"
        return f"process {owner['pid']} ({owner['message']}) {place}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
