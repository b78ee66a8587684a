"""No damaged record is read as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.storage.test_records import summary
from uclearn.errors import DataError, UclearnError
from uclearn.storage.files import append_line
from uclearn.storage.recorder import open_run
from uclearn.storage.records import Run, find_runs, read_run
from uclearn.storage.sealed import (
    DamagedError,
    append_sealed,
    read_sealed,
    read_sealed_lines,
    sealed,
    write_sealed,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A complete run with two events."""
    with open_run(tmp_path, {"seed": 1, "lr": 0.1}, "test") as run:
        run.append("epoch", {"loss": 0.25, "task": 0})
        run.append("evaluation", {"task": 0, "scores": [0.5, None]})
        run.finish(summary())
    return tmp_path


def _said(run: Run) -> tuple[object, ...]:
    return run.config, run.environment, run.events, run.summary


@pytest.mark.parametrize("name", ["config.json", "events.jsonl", "summary.json"])
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_wherever_a_bit_flips_the_run_is_found_and_refused(
    folder: Path, name: str, bit: int
) -> None:
    path = folder / name
    sound, meant = path.read_bytes(), _said(read_run(folder))
    for place in range(len(sound)):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        assert find_runs(folder) == [folder], place
        with pytest.raises(UclearnError):
            read_run(folder)
    path.write_bytes(sound)
    assert _said(read_run(folder)) == meant


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_complete_run_with_a_torn_last_line_is_refused(folder: Path, cut: int) -> None:
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"The last line of .* is damaged"):
        read_run(folder)


def test_a_lost_line_of_a_complete_run_is_missed(folder: Path) -> None:
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes().split(b"\n", 1)[0] + b"\n")
    with pytest.raises(DataError, match="1 of 2 lines"):
        read_run(folder)


def test_a_document_that_was_only_indented_anew_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    write_sealed(path, {"schema": 2, "σ": [1, 0.1, None]})
    path.write_bytes(json.dumps(json.loads(path.read_bytes())).replace(" ", "\r\n").encode())
    assert read_sealed(path) == {"schema": 2, "σ": [1, 0.1, None]}


def test_one_of_the_first_schema_needs_no_checksum_and_one_of_the_second_does(
    tmp_path: Path,
) -> None:
    path = tmp_path / "document.json"
    path.write_text('{"schema": 1, "seed": 3}')
    assert read_sealed(path) == {"schema": 1, "seed": 3}
    path.write_text('{"schema": 2, "seed": 3}')
    with pytest.raises(DataError, match="has no checksum"):
        read_sealed(path)
    path.write_text("[]")
    with pytest.raises(DataError, match="no JSON object"):
        read_sealed(path)


def test_no_line_without_a_checksum_follows_one_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"old": 1}\n')
    append_sealed(path, {"new": 2})
    assert read_sealed_lines(path) == [{"old": 1}, {"new": 2}]
    with path.open("a") as file:
        file.write('{"forged": 3}\n')
    with pytest.raises(DataError, match=r"Line 3 of .* has no checksum"):
        read_sealed_lines(path)


def test_the_order_of_keys_does_not_matter_but_every_value_does() -> None:
    one = sealed({"a": 1, "b": [True, "x"]})
    assert one["checksum"] == sealed({"b": [True, "x"], "a": 1})["checksum"]
    others = [{"a": 1.0, "b": [True, "x"]}, {"a": 1, "b": [1, "x"]}, {"a": 1, "b": ["x", True]}]
    assert all(sealed(other)["checksum"] != one["checksum"] for other in others)


def test_a_number_that_is_none_was_never_written(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    for checksum in ("", ', "checksum": "0"', ', "checksum": null'):
        path.write_text(f'{{"schema": 2, "loss": NaN{checksum}}}')
        with pytest.raises(DamagedError, match=r"document.json is damaged or was changed by hand"):
            read_sealed(path)


def test_what_is_nested_too_deeply_is_damaged_too(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text("[" * 100_000 + "]" * 100_000 + "\n")
    with pytest.raises(DataError, match=r"deep.jsonl is not valid JSON: maximum recursion"):
        read_sealed(path)
    with pytest.raises(DataError, match=r"Line 1 of .*deep.jsonl is not valid JSON: maximum rec"):
        read_sealed_lines(path)


@pytest.mark.parametrize("spoil", ["gone", "twice", "swapped"])
def test_a_line_that_is_not_in_its_place_is_noticed(folder: Path, spoil: str) -> None:
    (folder / "summary.json").unlink()  # which knows how many there are
    path = folder / "events.jsonl"
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    lines = {
        "gone": [second, *rest],
        "twice": [first, first, second, *rest],
        "swapped": [second, first, *rest],
    }
    path.write_bytes(b"".join(lines[spoil]))
    with pytest.raises(DamagedError, match=r"Line [12] of .*events.jsonl is damaged"):
        read_run(folder)


def test_lines_whose_checksums_say_nothing_of_their_place_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_line(path, json.dumps(sealed({"schema": 2, "seed": 0})))
    append_sealed(path, {"schema": 2, "seed": 1})
    assert [line["seed"] for line in read_sealed_lines(path)] == [0, 1]
