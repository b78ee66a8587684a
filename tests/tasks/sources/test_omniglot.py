from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from uclearn.errors import DataError
from uclearn.tasks.sources.omniglot import CLASSES, load, shrink

SETS = {"images_background": ["Greek", "Latin"], "images_evaluation": ["Keble"]}


def write(folder: Path, side: int = 105) -> None:
    """Two alphabets and one, two characters each, two drawings each: all paper and all ink."""
    for part, alphabets in SETS.items():
        for alphabet in alphabets:
            for character in ("character01", "character02"):
                place = folder / "omniglot" / part / alphabet / character
                place.mkdir(parents=True)
                for number, value in ((1, 255), (2, 0)):
                    pixels = np.full((side, side), value, dtype=np.uint8)
                    Image.fromarray(pixels).convert("1").save(place / f"0001_{number:02}.png")


def test_all_alphabets_come_as_one_array(tmp_path: Path) -> None:
    write(tmp_path)
    for _ in range(2):  # from the files, then from the cache
        drawings = load(tmp_path)
        assert drawings.inputs.shape == (12, 28, 28)
        assert drawings.names == ("Greek", "Latin", "Keble")
        assert drawings.alphabets.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert drawings.characters.tolist() == [0, 0, 1, 1] * 3
        assert drawings.inputs[0].unique().tolist() == [0]  # paper
        assert drawings.inputs[1].unique().tolist() == [255]  # ink


def test_shrinking_is_the_mean_ink_of_the_area() -> None:
    """Oracle: every pixel made 4x4, then the plain mean of each 15x15 block."""
    ink = np.random.default_rng(0).random((5, 105, 105)) < 0.3
    fine = torch.from_numpy(ink).double().repeat_interleave(4, 1).repeat_interleave(4, 2)
    expected = F.avg_pool2d(fine[:, None], 15)[:, 0] * 255
    assert np.abs(shrink(ink) - expected.numpy()).max() <= 0.5 + 1e-9  # rounded


def test_drawings_of_another_size_are_refused(tmp_path: Path) -> None:
    write(tmp_path, side=100)
    with pytest.raises(DataError, match=r"png: expected 105x105 pixels, found 100x100"):
        load(tmp_path)


def test_one_half_of_omniglot_is_not_enough(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "omniglot" / "images_evaluation").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"Missing: .*images_evaluation"):
        load(tmp_path)


def test_an_empty_character_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "omniglot" / "images_evaluation" / "Keble" / "character03").mkdir()
    with pytest.raises(DataError, match=r"character03: expected at least one picture"):
        load(tmp_path)


def test_the_real_omniglot(folder_with: Callable[..., Path]) -> None:
    """964 + 659 characters in 30 + 20 alphabets, 20 drawings of each."""
    drawings = load(folder_with("omniglot"))
    assert len(drawings.inputs) == 1623 * 20
    assert sum(CLASSES) == 1623
    assert sum(CLASSES[:30]) == 964
    for alphabet, classes in enumerate(CLASSES):
        own = drawings.characters[drawings.alphabets == alphabet]
        assert own.bincount().tolist() == [20] * classes
