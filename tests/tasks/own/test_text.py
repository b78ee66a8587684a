"""CSV files: how long they are is known before they are read, whatever separates their cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from tests.tasks.own.files import machines
from uclearn.errors import DataError
from uclearn.tasks.own import examples
from uclearn.tasks.own.columns import Roles
from uclearn.tasks.own.source import Asked, own_data, read_own
from uclearn.tasks.own.text import read_csv


def test_a_long_table_is_announced_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machines(tmp_path / "wear.csv")
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows * 400]))
    monkeypatch.setattr(examples, "free_memory", lambda: 1e5)
    with pytest.raises(DataError, match=r"wear.csv: reading it takes about .* Nothing was read"):
        own_data(path)


def test_much_memory_is_worth_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(examples, "_MUCH", 1e3)
    read_csv(machines(tmp_path / "wear.csv"), Roles())
    assert "wear.csv: reading it takes about " in caplog.text


def test_pieces_make_the_whole_whatever_the_file(tmp_path: Path) -> None:
    """More rows than a piece has; words turn up late, labels out of order, cells are missing."""
    rows, draw = 45_000, np.random.default_rng(0)
    x = draw.normal(size=(rows, 2)).astype(np.float32)
    label = np.array([10, 9, 2])[np.arange(rows) * 3 // rows]
    task = np.array(["late", "early"])[(np.arange(rows) > 30_000).astype(int)]
    word = np.array(["b", "a", ""])[np.arange(rows) * 3 // rows]
    table = pa.table({"u": x[:, 0], "v": x[:, 1], "w": word, "task": task, "label": label})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", x=x, y=label, task=task)
    features = np.stack([x[:, 0], x[:, 1], word == "a", word == "b"], axis=1).astype(np.float32)
    for name, expected in (("t.csv", features), ("t.parquet", features), ("t.npz", x)):
        found, _ = read_own(Asked(str(tmp_path / name)))
        np.testing.assert_allclose(found.inputs.numpy(), expected, rtol=1e-6)
        assert found.classes == ("2", "9", "10")
        assert found.targets.tolist() == (2 - np.arange(rows) * 3 // rows).tolist()
        assert found.task_names == ("late", "early")
        assert found.tasks is not None
        assert found.tasks.tolist() == (np.arange(rows) > 30_000).astype(int).tolist()


@pytest.mark.parametrize("separator", [";", "\t"])
def test_semicolons_and_tabs_separate_as_commas_do(tmp_path: Path, separator: str) -> None:
    commas = machines(tmp_path / "wear.csv")
    other = tmp_path / "other.csv"
    other.write_text(commas.read_text().replace(",", separator))
    one, two = read_csv(commas, Roles()), read_csv(other, Roles())
    assert torch.equal(one.inputs.nan_to_num(-1), two.inputs.nan_to_num(-1))


def test_a_file_without_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("1,2,a\n3,4,b\n5,6,a\n")
    read = read_csv(path, Roles())
    assert read.inputs.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (read.classes, read.first_row) == (("a", "b"), 1)
