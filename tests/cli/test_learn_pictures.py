"""A model in use learns from pictures and Parquet, and says when it guesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.cli.terminal import Uclearn
from uclearn.live.learner import Learner

COLOURS = {"red": (220, 20, 20), "blue": (20, 20, 220), "green": (20, 220, 20), "grey": (99,) * 3}


def pictures(folder: Path, *names: str, each: int = 30, size: tuple[int, int] = (12, 9)) -> Path:
    draw = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            noise = draw.integers(-15, 15, (size[1], size[0], 3))
            pixels = np.clip(np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.mark.slow
def test_pictures_are_learned_and_told_apart(uclearn: Uclearn, tmp_path: Path) -> None:
    pictures(tmp_path / "warm", "red", "blue")
    pictures(tmp_path / "cold", "green", "grey", size=(20, 30))
    for name in ("warm", "cold"):
        options = ["--set", "sigma=0.02", "--epochs", "5"] if name == "warm" else ["--epochs", "5"]
        said = uclearn("learn", "model", "--data", name, "--name", name, *options)
        assert said.code == 0, said.err
    told = uclearn("predict", "model", "--data", "warm/red", "--task", "warm")
    assert told.err == ""
    labels = [line.split(",")[1] for line in told.out.splitlines()[1:]]
    assert labels.count("red") >= 27
    guessed = uclearn("predict", "model", "--data", "warm/red")
    assert "The task was guessed example by example" in guessed.err
    assert "when the task is told" in guessed.err
    assert guessed.out.splitlines()[0] == "task,label,probability,entropy,task_margin"


def test_tasks_in_a_folder_are_learned_one_by_one(uclearn: Uclearn, tmp_path: Path) -> None:
    pictures(tmp_path / "all" / "warm", "red", "blue", each=2)
    said = uclearn("learn", "model", "--data", "all", "--name", "all")
    assert said.code == 1
    assert "has a folder for each task (warm, ...)" in said.err
    assert "Say which: `--only warm`." in said.err
    assert not Path("model").exists()
    (tmp_path / "all" / "warm" / "red" / "torn.png").write_bytes(b"torn")
    words = ["learn", "model", "--data", "all", "--name", "warm", "--only", "warm", "--epochs", "1"]
    said = uclearn(*words)
    assert "torn.png: cannot be read" in said.err
    said = uclearn(*words, "--skip-broken", "--size", "16", "--grey", "--canary", "1")
    assert said.code == 0, said.err
    assert "1 pictures cannot be read, left out: red/torn.png" in said.out
    assert Learner.load("model").knows().shape == (1, 16, 16)


def test_parquet_is_learned_as_csv_is(uclearn: Uclearn) -> None:
    y = np.arange(60) % 2
    x = np.random.default_rng(0).normal(size=60) + 3 * y
    pq.write_table(pa.table({"x": x, "z": x**2, "label": np.array(["ok", "worn"])[y]}), "a.parquet")
    said = uclearn("learn", "model", "--data", "a.parquet", "--name", "a", "--epochs", "2")
    assert said.code == 0, said.err
    told = uclearn("predict", "model", "--data", "a.parquet", "--label", "label")
    assert told.code == 0, told.err
    assert len(told.out.splitlines()) == 61
    Image.new("RGB", (8, 8)).save("one.png")
    Path("pics").mkdir()
    Path("one.png").rename("pics/one.png")
    said = uclearn("predict", "model", "--data", "pics")
    assert "holds pictures, but this model takes examples of shape (2,)" in said.err
