"""Whatever lies in the folders is either counted, once, or listed."""

import shutil
from pathlib import Path

import pytest

from tests.report.runs import config, matrix, write_run
from uclearn.errors import DataError
from uclearn.report.collect import collect, tasks_done


def test_runs_are_found_at_any_depth_and_by_several_ways_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "b" / "c", config(), matrix(2, 0.9, 0.1, 0))
    found = collect([tmp_path, tmp_path / "a", tmp_path / "a" / "b" / "c"])
    assert len(found.complete) == 1
    assert not found.repeated


def test_an_incomplete_run_is_not_complete(tmp_path: Path) -> None:
    write_run(tmp_path, config(tasks=5), matrix(2, 0.9, 0.1, 0), complete=False)
    found = collect([tmp_path])
    assert not found.complete
    assert [tasks_done(run) for run in found.incomplete] == [2]


def test_a_copy_of_a_run_is_not_a_second_seed(tmp_path: Path) -> None:
    write_run(tmp_path / "one", config(), matrix(2, 0.9, 0.1, 0))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = collect([tmp_path])
    assert [run.folder.name for run in found.complete] == ["one"]
    assert [run.folder.name for run in found.repeated] == ["two"]


def test_a_damaged_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "good", config(), matrix(2, 0.9, 0.1, 0))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "summary.json").write_text('{"format": "uclearn.run", "schema": 99}')
    found = collect([tmp_path])
    assert len(found.complete) == 1
    (bad,) = found.unreadable
    assert "newer uclearn" in bad.reason
    assert len(found) == 2


def test_no_run_at_all_is_an_error_that_says_what_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must hold at least one run, got .*config\.json"):
        collect([tmp_path])


def test_a_path_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a folder"):
        collect([tmp_path / "nowhere"])
