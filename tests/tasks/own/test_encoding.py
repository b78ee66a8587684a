"""A later table becomes the same features as the first one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tasks.own.files import machines, write_csv
from uclearn.errors import DataError
from uclearn.tasks.own.columns import Roles, columns_for
from uclearn.tasks.own.encoding import Encoding
from uclearn.tasks.own.text import Read, csv_columns, read_csv

NAMES = ["heat", "speed", "colour", "label"]
FIRST = [[1, 5, "red", "ok"], ["", 6, "blue", "worn"], [3, 7, "", "ok"]]


def first(path: Path) -> tuple[Encoding, Read]:
    where = str(path)
    read = csv_columns(path, lambda names: columns_for(names, Roles().found(names, where)))
    return Encoding.learned(where, read.columns, Roles().found(read.names, where)), read


def later(encoding: Encoding, path: Path, *, labelled: bool = True) -> tuple[list[object], object]:
    read = csv_columns(path, lambda n: encoding.columns(n, str(path), labelled=labelled))
    inputs, notes = encoding.encoded(read.columns)
    return inputs.tolist(), notes


def test_features_by_hand(tmp_path: Path) -> None:
    encoding, read = first(write_csv(tmp_path / "first.csv", NAMES, FIRST))
    inputs, notes = encoding.encoded(read.columns)
    # heat (2 on average), where it is missing, speed, blue, red
    assert inputs.tolist() == [[1, 0, 5, 0, 1], [2, 1, 6, 1, 0], [3, 0, 7, 0, 0]]
    assert encoding.scaled().tolist() == [True, False, True, False, False]
    assert notes == []


def test_the_same_features_as_compare_has(tmp_path: Path) -> None:
    """But for what is missing, which has no value there before the scale of a task is known."""
    encoding, read = first(machines(tmp_path / "wear.csv"))
    examples = read_csv(tmp_path / "wear.csv", Roles())
    titles = tuple(title for feature in encoding.features for title in feature.titles())
    assert titles == examples.columns
    assert encoding.scaled().tolist() == examples.scaled.tolist()  # type: ignore[union-attr]
    there = ~examples.inputs.isnan()
    inputs, _ = encoding.encoded(read.columns)
    assert torch.equal(inputs[there], examples.inputs[there])
    assert there.logical_not().any()


def test_what_was_not_there_the_first_time_is_taken_for_nothing_and_said(tmp_path: Path) -> None:
    encoding, _ = first(write_csv(tmp_path / "first.csv", NAMES, FIRST))
    rows: list[list[object]] = [["green", 9, "", "ok", 4], ["red", "", "x", "ok", ""]]
    path = write_csv(tmp_path / "later.csv", ["colour", "speed", "new", "label", "heat"], rows)
    inputs, notes = later(encoding, path)
    assert inputs == [[4, 0, 9, 0, 0], [2, 1, 6, 0, 1]]  # columns by name, the mean for speed
    assert notes == [
        "Column speed: empty in 1 row; it was in none when the model was made, so that the mean "
        "stands there, unmarked.",
        "Column colour: in 1 row words that the model does not know (green); it takes them for "
        "none of those that it knows.",
    ]
    assert encoding.left_out(["colour", "new", "label"]) == ["new"]


def test_it_is_kept_in_words(tmp_path: Path) -> None:
    encoding, _ = first(write_csv(tmp_path / "first.csv", NAMES, FIRST))
    assert Encoding.from_document(json.loads(json.dumps(encoding.document()))) == encoding


@pytest.mark.parametrize(
    ("names", "row", "words"),
    [
        (["heat", "speed", "label"], [1, 2, "ok"], "there is no column 'colour', of which this"),
        (["heat", "speed", "colour"], [1, 2, "red"], "there is no column 'label', of which this"),
        (NAMES, ["hot", 2, "red", "ok"], "row 2, column heat: expected a number as everywhere"),
        (NAMES, [1e300, 2, "red", "ok"], "row 2, column heat: expected a number that 32 bits"),
    ],
)
def test_a_table_that_does_not_fit(
    tmp_path: Path, names: list[str], row: list[object], words: str
) -> None:
    encoding, _ = first(write_csv(tmp_path / "first.csv", NAMES, FIRST))
    with pytest.raises(DataError, match=words) as refusal:
        later(encoding, write_csv(tmp_path / "later.csv", names, [row]))
    assert "--categories" not in str(refusal.value)  # that was chosen the first time
