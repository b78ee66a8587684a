"""Parquet files written by pyarrow, and data sets that `datasets` 5.2.0 itself saved (in `saved`,
twelve rows each, so that the tests need not have that package)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.tasks.own.files import blobs, machines
from uclearn.errors import DataError
from uclearn.tasks.own.columns import Roles
from uclearn.tasks.own.source import own_data
from uclearn.tasks.own.text import read_csv

SAVED = Path(__file__).with_name("saved")


def test_a_parquet_file_holds_what_the_same_csv_file_does(tmp_path: Path) -> None:
    text = machines(tmp_path / "wear.csv")
    rows = [line.split(",") for line in text.read_text().splitlines()]
    columns = dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))
    heat = [float(cell) if cell else None for cell in columns.pop("heat")]
    path = tmp_path / "wear.parquet"
    pq.write_table(pa.table({"heat": heat, **columns}), path)
    from uclearn.tasks.own.arrow import read_parquet

    one, two = read_csv(text, Roles()), read_parquet(path, Roles())
    assert one.columns == two.columns
    assert torch.equal(one.inputs.nan_to_num(-1), two.inputs.nan_to_num(-1))
    assert torch.equal(one.targets, two.targets)
    assert own_data(path).classes == own_data(text).classes


def test_lists_are_features(tmp_path: Path) -> None:
    x, y = blobs()
    path = tmp_path / "vectors.parquet"
    pq.write_table(pa.table({"x": list(x), "extra": y * 1.0, "label": y}), path)
    made = own_data(path, split=2)
    assert made.input_shape == (7,)


def test_pictures_that_datasets_saved(tmp_path: Path) -> None:
    made = own_data(SAVED / "pictures", permute=2)
    task = made.build(0, None, 1)[0]
    assert made.source is not None
    assert made.source.kind == "datasets"
    assert (len(task.train), len(task.test)) == (8, 4)  # type: ignore[arg-type]
    batch = task.train.batch(torch.arange(8))
    assert batch.targets.tolist() == [0, 1] * 4
    assert own_data(SAVED / "pictures", permute=2, size=4, grey=True).input_shape == (16,)


def test_a_table_that_datasets_saved() -> None:
    made = own_data(SAVED / "table", permute=1)
    assert made.input_shape == (3,)  # heat, kind=a, kind=b
    assert made.build(0, None, 1)[0].classes == 2


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"x": [1.0, float("inf")], "label": ["a", "b"]}), "row 1, column x"),
        (pa.table({"x": [[1.0], [1.0, 2.0]], "label": ["a", "b"]}), "column x: expected lists"),
        (pa.table({"x": [b"1", b"2"], "label": ["a", "b"]}), "--drop x"),
        (pa.table({"x": [1, 2], "label": ["a", None]}), "row 1, column label: .* empty cell"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, table: pa.Table, words: str) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(table, path)
    with pytest.raises(DataError, match=words):
        own_data(path, permute=2)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "half.parquet"
    pq.write_table(pa.table({"x": np.arange(100), "label": np.arange(100) % 2}), path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"half.parquet: expected a whole Parquet file"):
        own_data(path, permute=2)
    saved = shutil.copytree(SAVED / "table", tmp_path / "saved")
    (arrow,) = saved.glob("*.arrow")
    arrow.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"\.arrow: expected a whole Arrow file"):
        own_data(saved, permute=2)
