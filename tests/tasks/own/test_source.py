"""A source is known by what it holds and what is made of it, wherever it lies."""

from __future__ import annotations

from pathlib import Path

from tests.tasks.own.files import blobs, write_npz
from uclearn.tasks.own.source import own_data


def test_the_name_is_that_of_the_data_and_of_what_is_made_of_them(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "four.npz")
    name = own_data(path, split=2).name
    moved = tmp_path / "elsewhere" / "four.npz"
    moved.parent.mkdir()
    path.rename(moved)
    assert own_data(moved, split=2).name == name
    assert own_data(moved, permute=2).name != name
    write_npz(moved, x=blobs(seed=1)[0])
    assert own_data(moved, split=2).name != name


def test_nothing_is_written_beside_the_data(tmp_path: Path, own_cache: Path) -> None:
    path = write_npz(tmp_path / "four.npz")
    own_data(path, split=2)
    assert [each.name for each in tmp_path.iterdir() if each != own_cache] == ["four.npz"]
    assert len(list(own_cache.rglob("*four.npz.safetensors"))) == 1
