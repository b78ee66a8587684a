"""Files that grow by whole lines, written by several processes, read at any moment.

A line counts once its newline is on the disk. What stands behind the last newline is a line that
a crash tore: readers do not see it, and the next writer removes it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uclearn.errors import DataError
from uclearn.storage.atomic import StorageError, refusal

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
    try:
        data = path.read_bytes()
    except OSError as error:
        raise refusal("read", path, error, "Check the path and the permissions.") from error
    return data.split(b"\n")[:-1]


def read_jsonl(path: Path) -> list[dict[str, object]]:
    """One dict per whole line of the file `path`; a torn last line is left out."""
    return [_parse(line, number, path) for number, line in enumerate(read_lines(path), start=1)]


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
    except ValueError as error:
        raise DataError(
            f"Line {number} of {path} is not valid JSON: {error}. The file is damaged; "
            "restore it or run again."
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"Line {number} of {path} must be a JSON object, got {value!r}.")
    return value
