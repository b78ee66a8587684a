"""Files that announce more than they hold, or more than there is room for."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.own.files import write_npz
from uclearn.errors import DataError
from uclearn.tasks.own import examples
from uclearn.tasks.own.source import own_data


def bomb(path: Path) -> Path:
    """A few kilobytes that announce eighty gigabytes."""
    header = io.BytesIO()
    shape = (10_000_000, 1000)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(1000))
        archive.writestr("y.npy", header.getvalue())
    return path


def test_a_header_that_announces_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"bomb.npz: x.npy announces 80,000,000,000 bytes"):
        own_data(bomb(tmp_path / "bomb.npz"), split=2)


def test_zeros_that_unfold_into_more_than_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, x=np.zeros((1000, 1000)), y=np.zeros(1000, dtype=int))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(examples, "free_memory", lambda: 1e6)
    with pytest.raises(DataError, match=r"zeros.npz: .* about 0.0121 GB .* 0.001 GB are free"):
        own_data(path, split=2)


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "two.npz")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x.npy", b"")
    with pytest.raises(DataError, match=r"two arrays of one name, x.npy"):
        own_data(path, split=2)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"\x93NUMPY"])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged.npz: expected a whole npz file"):
        own_data(path, split=2)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "objects.npz"
    np.savez(path, x=np.array([{}, {}], dtype=object), y=np.array([0, 1]))
    with pytest.raises(DataError, match=r"with Python objects"):
        own_data(path, split=2)
