"""`uclearn learn` from tables with words, gaps and several tasks."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.terminal import Said, Uclearn
from tests.tasks.own.files import machines, write_csv, write_npz
from uclearn.live.learner import Learner

SAVED = Path(__file__).parents[1] / "tasks" / "own" / "saved"
QUICK = ("--epochs", "25", "--lr", "0.02", "--hidden", "12", "--max-drop", "0.9")


def learn(uclearn: Uclearn, data: str, name: str, *words: str) -> Said:
    return uclearn("learn", "m", "--data", data, "--name", name, *words)


def test_words_and_gaps_month_after_month(uclearn: Uclearn, tmp_path: Path) -> None:
    machines(tmp_path / "wear.csv")
    said = learn(uclearn, "wear.csv", "lathe")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert (
        "holds 2 tasks (lathe, drill, ...), and an update learns one. Say which: `--only lathe`"
        in said.err
    )
    assert not Path("m").exists()
    assert learn(uclearn, "wear.csv", "lathe", "--only", "lathe", *QUICK).code == 0
    known = Learner.load("m").encoding
    assert known is not None
    assert [f.name for f in known.features] == ["heat", "colour"]
    with Path("wear.csv").open() as file:
        rows = [row for row in csv.reader(file) if "drill" in row]
    for row in rows[::4]:
        row[1] = "green"
    # columns in another order, one more, a word that is new; as Parquet, to be read alike
    columns = {"label": [r[3] for r in rows], "colour": [r[1] for r in rows], "by": ["me"] * 40}
    heat = pa.array([float(r[0]) if r[0] else None for r in rows])
    pa.parquet.write_table(pa.table({**columns, "heat": heat}), "drill.parquet")
    said = learn(uclearn, "drill.parquet", "drill", "--max-drop", "0.9")
    assert said.code == 0
    assert "Column colour: in 10 rows words that the model does not know (green)" in said.out
    assert "rows that look like some that guard old tasks are left out." in said.out
    assert "Left out, as the model does not know them: columns by." in said.out
    told = " ".join(uclearn("status", "m").out.split())
    assert "drill: Column colour: in 10 rows words that the model does not know" in told
    # what is asked needs no labels, and is read by the names of its columns
    write_csv(tmp_path / "asked.csv", ["colour", "heat"], [["red", 30], ["green", 20], ["", ""]])
    said = uclearn("predict", "m", "--data", "asked.csv", "--task", "drill")
    assert [line.split(",")[1] for line in said.out.splitlines()[1:3]] == ["worn", "ok"]
    assert "Column colour: in 1 row words that the model does not know (green)" in said.err
    answers = Learner.load("m").predict("asked.csv", task="drill")
    assert answers.labels.tolist()[:2] == [1, 0]


def test_rows_that_are_for_the_test_are_not_learned(uclearn: Uclearn, tmp_path: Path) -> None:
    write_npz(tmp_path / "four.npz", split=np.array(["train", "test"] * 60))
    said = learn(uclearn, "four.npz", "first", *QUICK)
    assert said.code == 0
    assert "54 examples, 6 set apart" in said.out
    assert "60 rows that are not for training are left out." in said.out


@pytest.mark.parametrize("kind", ["table", "pictures"])
def test_what_datasets_saved_is_learned_and_asked(uclearn: Uclearn, kind: str) -> None:
    data = str(SAVED / kind)
    said = uclearn("learn", "m", "--data", data, "--name", "first", "--epochs", "2")
    assert said.code == 0, said.err
    said = uclearn("predict", "m", "--data", data)
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == 13
    other = str(SAVED / {"table": "pictures", "pictures": "table"}[kind])
    said = uclearn("predict", "m", "--data", other)
    assert (said.code, said.err.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--only", "lamp"), "there is no task 'lamp', but lathe, drill."),
        (("--only", "lathe", "--size", "8"), "`--size` says nothing about"),
        (("--only", "lathe", "--drop", "hue"), "there is no column 'hue'."),
        (("--only", "lathe", "--drop", "heat,colour"), "at least one column of features beside"),
    ],
)
def test_what_makes_no_sense(
    uclearn: Uclearn, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    machines(tmp_path / "wear.csv")
    said = learn(uclearn, "wear.csv", "lathe", *words)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert text in said.err
    assert not Path("m").exists()
