import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from uclearn.errors import DataError, UclearnError
from uclearn.storage import files
from uclearn.storage.files import StorageError, append_line, read_jsonl, read_lines, truncate_lines


def write_bytes(path: Path, data: bytes, *, sync: bool = True) -> None:
    files.write_chunks(path, [data], sync=sync)


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
    files.write_text(tmp_path / "text", "Größe\n", sync=False)
    files.write_chunks(tmp_path / "chunks", [b"ab", bytearray(), memoryview(b"c")])
    files.write_json(tmp_path / "json", {"σ": [1, 0.1, None]})
    assert (tmp_path / "bytes").read_bytes() == b"\0\xff"
    assert (tmp_path / "text").read_text(encoding="utf-8") == "Größe\n"
    assert (tmp_path / "chunks").read_bytes() == b"abc"
    assert files.read_json(tmp_path / "json") == {"σ": [1, 0.1, None]}
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
        files.read_json(path)


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
        files.write_json(tmp_path / "file", value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("contents", [b"", b"{", b"\xff"])
def test_damaged_json_is_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "file").write_bytes(contents)
    with pytest.raises(DataError, match=r"file is not valid JSON: .*restore or delete it"):
        files.read_json(tmp_path / "file")


def test_leftovers_of_one_file_are_removed_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "a[1].json"
    files.aside_of(path).touch()
    files.aside_of(path).touch()
    other = files.aside_of(tmp_path / "b.json")
    for kept in (path, other):
        kept.touch()
    files.remove_leftovers(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


def test_a_folder_is_swept_of_leftovers_and_of_nothing_else(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("a.json", ".hidden.tmp", ".lock", "b.tmp")]
    for path in (*kept, files.aside_of(tmp_path / "checkpoint.safetensors")):
        path.touch()
    files.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_the_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    write_bytes(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.slow
def test_readers_and_writers_at_once_see_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    code = """
import sys
from pathlib import Path
from uclearn.storage.files import write_json
for _ in range(150):
    write_json(Path(sys.argv[1]), [int(sys.argv[2])] * 5000, sync=False)
"""
    files.write_json(path, [0] * 5000)
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


APPEND = """
import json, sys
from pathlib import Path
from uclearn.storage.files import append_line
path, writer, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    filling = "x" * (number * 7919 % 20_000)
    append_line(path, json.dumps({"writer": writer, "number": number, "filling": filling}))
"""


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append_line(path, '{"a": 1}')
    append_line(path, '{"σ": null}', sync=True)
    assert read_jsonl(path) == [{"a": 1}, {"σ": None}]
    assert path.read_bytes() == '{"a": 1}\n{"σ": null}\n'.encode()


def test_four_processes_never_interleave_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "file"
    command = [sys.executable, "-c", APPEND, str(path)]
    writers = [subprocess.Popen([*command, str(writer), "300"]) for writer in range(4)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    lines = read_jsonl(path)
    assert len(lines) == 1200
    for writer in range(4):
        assert [line["number"] for line in lines if line["writer"] == writer] == list(range(300))
    for line in lines:
        assert isinstance(line["number"], int)
        assert line["filling"] == "x" * (line["number"] * 7919 % 20_000)


def test_killed_writers_harm_no_line_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    command = [sys.executable, "-c", APPEND, str(path)]
    survivor = subprocess.Popen([*command, "0", "400"])
    for writer in range(1, 6):
        victim = subprocess.Popen([*command, str(writer), "1000000"])
        while not path.exists() or f'"writer": {writer},'.encode() not in path.read_bytes():
            time.sleep(0.01)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert survivor.wait() == 0
    append_line(path, '{"writer": 6, "number": 0}')
    lines = read_jsonl(path)
    assert [line["number"] for line in lines if line["writer"] == 0] == list(range(400))
    for writer in range(1, 6):
        numbers = [line["number"] for line in lines if line["writer"] == writer]
        assert numbers == list(range(len(numbers)))
        assert numbers
    assert lines[-1] == {"writer": 6, "number": 0}


@pytest.mark.parametrize("torn", [b"{", b'{"a": 1}', b"\xff\0", b"12", b"x" * 200_000])
@pytest.mark.parametrize("whole", [b"", b'{"b": 2}\n'])
def test_a_torn_last_line_is_not_seen_and_then_removed(
    tmp_path: Path, torn: bytes, whole: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(whole + torn)
    before = [json.loads(line) for line in whole.splitlines()]
    assert read_jsonl(path) == before
    append_line(path, '{"c": 3}')
    assert path.read_bytes() == whole + b'{"c": 3}\n'


@pytest.mark.parametrize("line", [b"{", b"\xff", b"", b"nonsense"])
def test_damage_in_the_middle_is_reported(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{}\n" + line + b"\n{}\n")
    with pytest.raises(DataError, match=r"Line 2 of .*file is not valid JSON.*damaged"):
        read_jsonl(path)


def test_a_line_that_is_no_object_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"[1]\n")
    with pytest.raises(DataError, match=r"Line 1 of .*file must be a JSON object, got \[1\]"):
        read_jsonl(tmp_path / "file")


def test_a_newline_inside_a_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`line` must not contain a newline, got 'a\\nb'"):
        append_line(tmp_path / "file", "a\nb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("accepted", [None, 1, 5])
def test_a_full_disk_takes_all_of_a_line_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: int | None
) -> None:
    path = tmp_path / "file"
    append_line(path, '{"a": 1}')
    write = os.write

    def limited(descriptor: int, data: bytes) -> int:
        if accepted is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:accepted])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        said = "No space left" if accepted is None else f"only {accepted} of 9 bytes"
        with pytest.raises(StorageError, match=f"Could not append to .*file: {said}"):
            append_line(path, '{"b": 2}')
    assert path.read_bytes() == b'{"a": 1}\n'
    append_line(path, '{"b": 2}')
    assert read_jsonl(path) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("count", range(4))
def test_truncating_keeps_the_first_lines(tmp_path: Path, count: int) -> None:
    path = tmp_path / "file"
    lines = [b"one", b"", "drei σ".encode()]
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"torn")
    truncate_lines(path, count)
    assert read_lines(path) == lines[:count]
    assert path.read_bytes().endswith(b"\n") or count == 0


@pytest.mark.parametrize("count", [-1, 3])
def test_truncating_to_lines_that_are_not_there(tmp_path: Path, count: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1\n2\n3")
    said = f"`count` must lie between 0 and the 2 lines of .*file, got {count}"
    with pytest.raises(DataError, match=said):
        truncate_lines(path, count)
    assert path.read_bytes() == b"1\n2\n3"


def test_files_that_cannot_be_reached(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "file"
    with pytest.raises(StorageError, match=r"Could not read .*file: No such file"):
        read_lines(path)
    with pytest.raises(StorageError, match=r"Could not append to .*file: No such file"):
        append_line(path, "")
    with pytest.raises(StorageError, match=r"Could not shorten .*file: No such file"):
        truncate_lines(path, 0)


def test_the_last_newline_is_found_however_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against Python's own rfind, with a window of 4 bytes moving over all short contents."""
    monkeypatch.setattr(files, "_TAIL", 4)
    path = tmp_path / "file"
    for length in range(14):
        for newline in range(-1, length):
            data = bytearray(b"x" * length)
            if newline >= 0:
                data[newline : newline + 1] = b"\n"
            path.write_bytes(data)
            append_line(path, "y")
            assert path.read_bytes() == data[: data.rfind(b"\n") + 1] + b"y\n"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_text(path, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert path.is_fifo()


def test_a_device_is_written_to_and_never_replaced() -> None:
    files.write_text(Path("/dev/null"), "nothing")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(StorageError, match=r"Could not write to /dev/full: No space left on dev"):
        files.write_text(Path("/dev/full"), "too much")
    assert Path("/dev/full").is_char_device()
