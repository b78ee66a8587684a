import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from uclearn.errors import DataError, UclearnError
from uclearn.storage import atomic
from uclearn.storage.atomic import StorageError


def write_bytes(path: Path, data: bytes, *, sync: bool = True) -> None:
    atomic.write_chunks(path, [data], sync=sync)


def full_disk_after(accepted: int) -> Callable[[int, memoryview], int]:
    """A `write` for which the disk is full once `accepted` bytes are written."""
    left = [accepted]
    write = os.write

    def limited(descriptor: int, data: memoryview) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(descriptor, data[: left[0]])
        left[0] -= written
        return written

    return limited


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_bytes(tmp_path / "bytes", b"\0\xff")
    atomic.write_text(tmp_path / "text", "Größe\n", sync=False)
    atomic.write_chunks(tmp_path / "chunks", [b"ab", bytearray(), memoryview(b"c")])
    atomic.write_json(tmp_path / "json", {"σ": [1, 0.1, None]})
    assert (tmp_path / "bytes").read_bytes() == b"\0\xff"
    assert (tmp_path / "text").read_text(encoding="utf-8") == "Größe\n"
    assert (tmp_path / "chunks").read_bytes() == b"abc"
    assert atomic.read_json(tmp_path / "json") == {"σ": [1, 0.1, None]}
    assert len(list(tmp_path.iterdir())) == 4


def test_a_write_that_is_taken_in_small_portions_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    write_bytes(tmp_path / "file", bytes(range(100)))
    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_order_of_the_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is on the disk before it gets its name, and the name before the call returns."""
    calls: list[str] = []

    def spy(name: str) -> None:
        original = getattr(os, name)

        def wrapper(*arguments: Any) -> Any:
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            calls.append("fsync folder" if folder else name)
            return original(*arguments)

        monkeypatch.setattr(os, name, wrapper)

    for name in ("write", "fsync", "replace"):
        spy(name)
    write_bytes(tmp_path / "file", b"new")
    assert calls == ["write", "fsync", "replace", "fsync folder"]
    calls.clear()
    write_bytes(tmp_path / "file", b"newer", sync=False)
    assert calls == ["write", "replace"]


@pytest.mark.parametrize("accepted", [0, 1, 5])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "write", full_disk_after(accepted))
    message = (
        f"Could not write {path}: No space left on device. What stood there before is untouched; "
        "free some space and start again."
    )
    with pytest.raises(StorageError) as caught:
        write_bytes(path, b"new contents")
    assert str(caught.value) == message
    assert isinstance(caught.value, UclearnError)
    assert isinstance(caught.value.__cause__, OSError)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "file"
    with pytest.raises(StorageError, match=r"No such file.*check that the folder exists"):
        write_bytes(path, b"")
    with pytest.raises(StorageError, match=r"Could not read .*file: No such file.*Check the path"):
        atomic.read_json(path)


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EINVAL, None), (errno.ENOTSUP, None), (errno.EIO, "Could not sync .*Check the disk")],
)
def test_a_folder_that_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str | None
) -> None:
    """Where the file system has no such thing that is no error; where the disk fails it is."""
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    if said is None:
        write_bytes(tmp_path / "file", b"new")
    else:
        with pytest.raises(StorageError, match=said):
            write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, {"a": object()}])
def test_what_json_cannot_say_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(DataError, match=r"`value` for .*file cannot be written as JSON"):
        atomic.write_json(tmp_path / "file", value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("contents", [b"", b"{", b"\xff"])
def test_damaged_json_is_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "file").write_bytes(contents)
    with pytest.raises(DataError, match=r"file is not valid JSON: .*restore or delete it"):
        atomic.read_json(tmp_path / "file")


def test_leftovers_of_one_file_are_removed_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "a[1].json"
    atomic.aside_of(path).touch()
    atomic.aside_of(path).touch()
    other = atomic.aside_of(tmp_path / "b.json")
    for kept in (path, other):
        kept.touch()
    atomic.remove_leftovers(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


def test_the_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    write_bytes(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_readers_and_writers_at_once_see_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    code = """
import sys
from pathlib import Path
from uclearn.storage.atomic import write_json
for _ in range(150):
    write_json(Path(sys.argv[1]), [int(sys.argv[2])] * 5000, sync=False)
"""
    atomic.write_json(path, [0] * 5000)
    command = [sys.executable, "-c", code, str(path)]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    thread = threading.Thread(target=lambda: [writer.wait() for writer in writers])
    thread.start()
    seen = set()
    while thread.is_alive():
        numbers = json.loads(path.read_bytes())
        assert len(numbers) == 5000
        assert len(set(numbers)) == 1
        seen.add(numbers[0])
    thread.join()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(seen) > 1
    assert list(tmp_path.iterdir()) == [path]
