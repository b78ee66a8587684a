from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.tasks.sources.published import png_claiming
from uclearn.errors import DataError
from uclearn.tasks.sources.notmnist import LETTERS, load


def write(folder: Path, each: int = 2, side: int = 28) -> Path:
    """notMNIST small with `each` files per letter, all pixels `10 * letter + number`."""
    root = folder / "notMNIST_small"
    for label, letter in enumerate(LETTERS):
        (root / letter).mkdir(parents=True)
        for number in range(each):
            pixels = np.full((side, side), 10 * label + number, dtype=np.uint8)
            Image.fromarray(pixels).save(root / letter / f"{number}.png")
    return root


def test_letters_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path)
    examples = load("small", tmp_path)
    assert examples.inputs.shape == (20, 28, 28)
    assert examples.labels.tolist() == [label for label in range(10) for _ in range(2)]
    assert examples.inputs[:, 5, 5].tolist() == [10 * n + i for n in range(10) for i in range(2)]
    assert examples.names == LETTERS
    assert examples.skipped == ()


def test_broken_files_are_skipped_and_counted_also_from_the_cache(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "A" / "0.png").write_bytes(b"")
    for _ in range(2):
        examples = load("small", tmp_path)
        assert len(examples.inputs) == 19
        assert examples.skipped == ("A/0.png",)


def test_many_broken_files_are_an_error(tmp_path: Path) -> None:
    root = write(tmp_path)
    for letter in LETTERS:
        for path in (root / letter).iterdir():
            path.write_bytes(b"\x89PNG")
    with pytest.raises(
        DataError, match=r"a handful of broken files at most, found 20 of 20, the first A/0"
    ):
        load("small", tmp_path)


def test_a_missing_or_empty_letter_is_an_error(tmp_path: Path) -> None:
    root = write(tmp_path)
    for path in (root / "J").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"J: expected at least one picture .* found none"):
        load("small", tmp_path)
    (root / "J").rmdir()
    with pytest.raises(DataError, match="expected the folders A to J, found no folder J"):
        load("small", tmp_path)


def test_other_sizes_and_bombs_are_errors_not_skips(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "B" / "0.png").write_bytes(png_claiming(50_000, 50_000))
    with pytest.raises(DataError, match="at most 16777216 pixels"):
        load("small", tmp_path)
    Image.fromarray(np.zeros((28, 20), dtype=np.uint8)).save(root / "B" / "0.png")
    with pytest.raises(DataError, match=r"B/0\.png: expected 28x28 pixels, found 20x28"):
        load("small", tmp_path)


def test_large_lies_beside_small(tmp_path: Path) -> None:
    write(tmp_path).rename(tmp_path / "notMNIST_large")
    assert len(load("large", tmp_path).inputs) == 20
    with pytest.raises(DataError, match="notmnist-small is not complete"):
        load("small", tmp_path)


def test_the_real_notmnist_small(folder_with: Callable[..., Path]) -> None:
    """18,724 readable letters, 1,872 or 1,873 of each."""
    examples = load("small", folder_with("notmnist-small"))
    assert len(examples.inputs) == 18724
    assert set(examples.labels.bincount().tolist()) == {1872, 1873}
