from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.tasks.sources.published import png_claiming
from uclearn.errors import DataError
from uclearn.tasks.sources.folder import (
    UnreadablePictureError,
    cached,
    fingerprint,
    read_picture,
)


def save(path: Path, pixels: object, mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).convert(mode).save(path)
    return path


def square(value: int = 0, side: int = 4) -> list[list[int]]:
    return [[value] * side] * side


def test_pixels_come_back_as_saved(tmp_path: Path) -> None:
    pixels = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert np.array_equal(read_picture(save(tmp_path / "a.png", pixels)), pixels)


@pytest.mark.parametrize("side", [5_000, 10_000, 60_000])
@pytest.mark.parametrize("action", ["error", "ignore"])
def test_a_small_file_that_claims_a_huge_picture_is_not_decoded(
    tmp_path: Path, side: int, action: str
) -> None:
    """Below Pillow's own warning, between its warning and its error, and beyond its error."""
    path = tmp_path / "bomb.png"
    path.write_bytes(png_claiming(side, side))
    with warnings.catch_warnings():
        warnings.simplefilter(action)  # type: ignore[arg-type]
        with pytest.raises(
            DataError, match=r"at most 16777216 pixels, found .* Nothing was decoded"
        ):
            read_picture(path)


@pytest.mark.parametrize("content", [b"", b"GIF89a", png_claiming(40, 40)[:50]])
def test_what_is_not_a_whole_picture_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(
        UnreadablePictureError, match=f"expected a PNG picture, found {len(content)} bytes"
    ):
        read_picture(path)


def test_the_size_can_be_demanded(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", square())
    with pytest.raises(DataError, match=rf"{path}: expected 28x28 pixels, found 4x4"):
        read_picture(path, side=28)


def test_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((4, 4), 40_000, dtype=np.uint16)).save(path)
    with pytest.raises(DataError, match=r"expected 8 bits per pixel, found mode I"):
        read_picture(path)


class Builder:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> tuple[dict[str, Tensor], str]:
        self.calls += 1
        return {"values": torch.tensor([self.calls])}, f"note {self.calls}"


def test_built_once_and_kept_in_the_data_folder(tmp_path: Path, own_cache: Path) -> None:
    build = Builder()
    for _ in range(3):
        tensors, note = cached(tmp_path, "a.safetensors", "key", build)
        assert tensors["values"].tolist() == [1]
        assert note == "note 1"
    assert build.calls == 1
    assert [path.name for path in (tmp_path / ".uclearn").iterdir()] == ["a.safetensors"]
    assert not own_cache.exists()


def test_another_key_builds_anew(tmp_path: Path) -> None:
    build = Builder()
    cached(tmp_path, "a.safetensors", "old", build)
    assert cached(tmp_path, "a.safetensors", "new", build)[1] == "note 2"
    assert cached(tmp_path, "a.safetensors", "new", build)[1] == "note 2"


@pytest.mark.parametrize("damage", [b"", b"\x00" * 100, b"{}"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    build = Builder()
    cached(tmp_path, "a.safetensors", "key", build)
    place = tmp_path / ".uclearn" / "a.safetensors"
    place.write_bytes(damage)
    assert cached(tmp_path, "a.safetensors", "key", build)[1] == "note 2"
    assert cached(tmp_path, "a.safetensors", "key", build)[1] == "note 2"


def test_a_folder_that_cannot_be_written_to_is_cached_elsewhere(
    tmp_path: Path, own_cache: Path
) -> None:
    (tmp_path / ".uclearn").touch()  # a file in the way refuses even the administrator
    build = Builder()
    for _ in range(2):
        assert cached(tmp_path, "a.safetensors", "key", build)[1] == "note 1"
    assert len(list((own_cache / "uclearn" / "arrays").iterdir())) == 1


def test_no_place_at_all_is_no_error(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / ".uclearn").touch()
    own_cache.touch()
    build = Builder()
    cached(tmp_path, "a.safetensors", "key", build)
    assert cached(tmp_path, "a.safetensors", "key", build)[1] == "note 2"


def test_the_fingerprint_sees_names_sizes_and_times(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a").write_bytes(b"one")
    seen = [fingerprint([folder], tmp_path)]
    (folder / "a").write_bytes(b"longer")
    seen.append(fingerprint([folder], tmp_path))
    os.utime(folder / "a", ns=(1, 1))
    seen.append(fingerprint([folder], tmp_path))
    (folder / "a").rename(folder / "b")
    seen.append(fingerprint([folder], tmp_path))
    (folder / "c").touch()
    seen.append(fingerprint([folder], tmp_path))
    assert len(set(seen)) == 5
    assert fingerprint([folder], tmp_path) == seen[-1]
