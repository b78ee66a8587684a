from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uclearn.tasks.sources.cache import cached, fingerprint


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
