import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from uclearn.errors import DataError
from uclearn.storage.records import (
    FORMAT,
    Summary,
    find_runs,
    read_document,
    read_run,
    read_summary,
)
from uclearn.storage.sealed import append_sealed, write_sealed

CONFIG = {"benchmark": "digits", "method": "ucl", "seed": 0, "ucl": {"beta": 0.03}}


def summary(**changes: Any) -> Summary:
    values: dict[str, Any] = {
        "config": CONFIG,
        "accuracy_matrix": [[0.9, None], [0.8, 0.95]],
        "average_accuracy": 0.875,
        "forgetting": 0.1,
        "seconds": 12.5,
        "peak_memory": 10**9,
        "parameters_kept": 960_060,
        "versions": {"torch": "2.13.0"},
        "git_commit": "0" * 40,
        "machine": {"processors": 2},
        "extra": {"note": "tested"},
    }
    return Summary(**{**values, **changes})


def begun(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, "schema": 1, "config": CONFIG, "environment": {"versions": {}}}
    (folder / "config.json").write_text(json.dumps({**document, **changes}))
    return folder


def finished(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_sealed(folder / "summary.json", summary().to_document())
    return folder


def test_the_summary_file_word_for_word() -> None:
    assert summary().to_document() == {
        "format": "uclearn.run",
        "schema": 2,
        "config": CONFIG,
        "accuracy_matrix": [[0.9, None], [0.8, 0.95]],
        "average_accuracy": 0.875,
        "forgetting": 0.1,
        "seconds": 12.5,
        "peak_memory": 10**9,
        "parameters_kept": 960_060,
        "versions": {"torch": "2.13.0"},
        "git_commit": "0" * 40,
        "machine": {"processors": 2},
        "extra": {"note": "tested"},
    }


def test_a_summary_comes_back_from_its_document() -> None:
    document = json.loads(json.dumps(summary().to_document()))
    assert Summary.from_document(document, "here") == summary()


def test_what_was_not_measured_is_null_in_the_file() -> None:
    document = summary(accuracy_matrix=((0.9, math.nan), (0.8, 0.7)), forgetting=math.nan)
    assert document.to_document()["accuracy_matrix"] == [[0.9, None], [0.8, 0.7]]
    assert document.to_document()["forgetting"] is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"average_accuracy": 94.5},
            "`average_accuracy` must lie between 0 and 1, got 94.5. It is",
        ),
        ({"forgetting": -2.0}, "`forgetting` must lie between -1 and 1, got -2.0"),
        ({"accuracy_matrix": [[1.0, 97.0]]}, "`accuracy_matrix[0][1]` must lie between 0 and 1"),
        ({"accuracy_matrix": [[1.0], [1.0, 0.5]]}, "must have rows of one length, got [1, 2]. Use"),
    ],
)
def test_percentages_and_ragged_matrices_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        summary(**changes)
    assert said in str(caught.value)


def test_a_summary_that_lacks_something_is_refused() -> None:
    document = summary().to_document()
    del document["seconds"], document["versions"]
    with pytest.raises(DataError, match=r"here lacks seconds, versions. It is damaged; run again."):
        Summary.from_document(document, "here")


def test_a_run_that_is_under_way(tmp_path: Path) -> None:
    begun(tmp_path)
    lines = '{"schema": 1, "event": "evaluation", "task": 0}\n{"schema": 1, "event": "eval'
    (tmp_path / "events.jsonl").write_text(lines)
    run = read_run(tmp_path)
    assert run.folder == tmp_path
    assert run.config == CONFIG
    assert run.environment == {"versions": {}}
    assert run.events == [{"schema": 1, "event": "evaluation", "task": 0}]
    assert run.summary is None


def test_a_run_of_which_only_the_summary_was_kept(tmp_path: Path) -> None:
    run = read_run(finished(tmp_path))
    assert run.config == CONFIG
    assert run.environment == {}
    assert run.events == []
    assert run.summary == summary()


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no run: neither config.json nor summary.json"):
        read_run(tmp_path)
    assert read_summary(tmp_path) is None


@pytest.mark.parametrize("contents", ['{"model_type": "bert"}', "[1]", "3"])
def test_files_of_other_programs_are_refused(tmp_path: Path, contents: str) -> None:
    (tmp_path / "config.json").write_text(contents)
    with pytest.raises(DataError, match=r"config.json .*was not written by uclearn"):
        read_document(tmp_path / "config.json")


def test_a_newer_schema_is_refused_by_file_and_line(tmp_path: Path) -> None:
    begun(tmp_path)
    for version in (1, 99):
        append_sealed(tmp_path / "events.jsonl", {"schema": version, "event": "epoch"})
    with pytest.raises(DataError, match=r"Line 2 of .*events.jsonl was written by a newer uclearn"):
        read_run(tmp_path)
    write_sealed(tmp_path / "config.json", {"format": FORMAT, "schema": 99})
    with pytest.raises(DataError, match=r"config.json was written by a newer uclearn"):
        read_run(tmp_path)


def test_all_runs_below_a_folder_are_found_and_nothing_else(tmp_path: Path) -> None:
    expected = [
        begun(tmp_path / "a"),
        finished(tmp_path / "a" / "seed 1"),
        begun(tmp_path / "b" / "c" / "d"),
        begun(finished(tmp_path / "e")),
    ]
    damaged = begun(tmp_path / "f")
    text = (damaged / "config.json").read_text()
    (damaged / "config.json").write_text(text[:-5])
    begun(tmp_path / ".hidden")
    foreign = begun(tmp_path / "g")
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert find_runs(tmp_path) == [*expected, damaged]
    assert find_runs(tmp_path / "a") == expected[:2]
    assert find_runs(tmp_path / "g") == []
    with pytest.raises(DataError, match=r"config.json is not valid JSON"):
        read_run(damaged)


def test_searching_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`folder` must be a folder, got .*absent. Check the path"):
        find_runs(tmp_path / "absent")


def test_results_are_read_and_written_without_torch() -> None:
    code = """
import sys
import uclearn.storage.recorder, uclearn.storage.records
print("torch" in sys.modules, "numpy" in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "False False\n"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (None, "`config` must be an object, got 'None'"),
        ([1], "`config` must be an object"),
        ({"seed": "x"}, "`config.seed` must be a whole number, got 'x'"),
        ({"seed": True}, "`config.seed` must be a whole number, got 'True'"),
        ({"changed": 3}, "`config.changed` must be a list"),
        ({"changed": [3]}, "`each of config.changed` must be text"),
        ({"scale": "much"}, "`config.scale` must be a whole number or a number or null"),
    ],
)
def test_an_old_configuration_that_can_be_none_is_refused(
    tmp_path: Path, config: object, told: str
) -> None:
    begun(tmp_path, config=config)
    with pytest.raises(DataError, match=re.escape(f"config.json is damaged: {told}")):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("spoiled", "told"),
    [
        ({"accuracy_matrix": 3}, "`accuracy_matrix` must be a list, got '3'"),
        ({"accuracy_matrix": ["x"]}, "`accuracy_matrix, row` must be a list"),
        ({"accuracy_matrix": [["x"]]}, "`accuracy_matrix, value` must be a whole number or"),
        ({"average_accuracy": "0.5"}, "`average_accuracy` must be a whole number or a number"),
        ({"seconds": None}, "`seconds` must be a whole number or a number, got 'None'"),
        ({"extra": []}, "`extra` must be an object"),
    ],
)
def test_an_old_summary_that_can_be_none_is_refused(
    tmp_path: Path, spoiled: dict[str, object], told: str
) -> None:
    document = {**summary().to_document(), "schema": 1, **spoiled}
    (tmp_path / "summary.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=re.escape(f"summary.json is damaged: {told}")):
        read_run(tmp_path)


def test_a_line_that_tells_of_no_event_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"schema": 1, "event": 3}\n')
    told = r"Line 1 of .*events.jsonl is damaged: `event` must be text, got '3'"
    with pytest.raises(DataError, match=told):
        read_run(tmp_path)


@pytest.mark.parametrize("spoil", ["empty", "gone"])
def test_a_run_whose_configuration_was_emptied_is_still_found(tmp_path: Path, spoil: str) -> None:
    begun(tmp_path / "run")
    append_sealed(tmp_path / "run" / "events.jsonl", {"schema": 2, "event": "epoch"}, 0)
    path = tmp_path / "run" / "config.json"
    path.write_bytes(b"") if spoil == "empty" else path.unlink()
    assert find_runs(tmp_path) == [tmp_path / "run"]
    with pytest.raises(DataError, match=r"config.json is not valid JSON|holds no run: neither"):
        read_run(tmp_path / "run")
