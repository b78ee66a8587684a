"""CSV files: how long they are is known before they are read, whatever separates their cells."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.tasks.own.files import machines
from uclearn.errors import DataError
from uclearn.tasks.own import examples
from uclearn.tasks.own.columns import Roles
from uclearn.tasks.own.source import own_data
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
