import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from uclearn.errors import DataError
from uclearn.storage import jsonl
from uclearn.storage.atomic import StorageError
from uclearn.storage.jsonl import append_line, read_jsonl, read_lines, truncate_lines

APPEND = """
import json, sys
from pathlib import Path
from uclearn.storage.jsonl import append_line
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
    monkeypatch.setattr(jsonl, "_TAIL", 4)
    path = tmp_path / "file"
    for length in range(14):
        for newline in range(-1, length):
            data = bytearray(b"x" * length)
            if newline >= 0:
                data[newline : newline + 1] = b"\n"
            path.write_bytes(data)
            append_line(path, "y")
            assert path.read_bytes() == data[: data.rfind(b"\n") + 1] + b"y\n"
