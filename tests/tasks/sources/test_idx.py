from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.sources.published import idx as idx_bytes
from tests.tasks.sources.published import write_mnist
from uclearn.errors import DataError
from uclearn.tasks.sources.idx import load, read_idx

TRAIN = "mnist/train-images-idx3-ubyte.gz"


@pytest.mark.parametrize("packed", [True, False])
def test_what_was_written_is_read(tmp_path: Path, packed: bool) -> None:
    written = write_mnist(tmp_path / "mnist", packed)
    train, test = load("mnist", tmp_path)
    assert np.array_equal(train.inputs.numpy(), written["train-images-idx3"])
    assert train.labels.tolist() == written["train-labels-idx1"].tolist()
    assert np.array_equal(test.inputs.numpy(), written["t10k-images-idx3"])
    assert (train.inputs.dtype, train.labels.dtype) == (torch.uint8, torch.int64)


@pytest.mark.parametrize(
    ("name", "folder"), [("fashion-mnist", "fashion-mnist"), ("kmnist", "KMNIST/raw")]
)
def test_the_kin_of_mnist_lie_in_their_own_folders(tmp_path: Path, name: str, folder: str) -> None:
    written = write_mnist(tmp_path / folder)
    assert np.array_equal(load(name, tmp_path).train.inputs.numpy(), written["train-images-idx3"])
    assert len(load(name, tmp_path).train.names) == 10


def test_a_truncated_gz_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    path = tmp_path / TRAIN
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=rf"{path}: expected a whole gzip file, found a damaged"):
        load("mnist", tmp_path)


def test_a_gz_that_is_none_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    (tmp_path / TRAIN).write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"expected a whole gzip file, .*Not a gzipped file"):
        load("mnist", tmp_path)


def test_a_gz_with_flipped_bits_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    path = tmp_path / TRAIN
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="expected a whole gzip file, found a damaged"):
        load("mnist", tmp_path)


def test_the_magic_number_is_checked(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    labels = (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").read_bytes()
    (tmp_path / TRAIN).write_bytes(labels)
    with pytest.raises(DataError, match=r"magic number 00000803 .* found 00000801"):
        load("mnist", tmp_path)


def test_an_empty_file_has_no_magic_number(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    path.touch()
    with pytest.raises(DataError, match=r"magic number 00000801 .* found an empty file"):
        read_idx(path, 1)


@pytest.mark.parametrize(("change", "found"), [(slice(None, -1), "11"), (None, "more")])
def test_the_number_of_values_must_be_what_the_header_says(
    tmp_path: Path, change: slice | None, found: str
) -> None:
    content = idx_bytes(np.zeros(12, dtype=np.uint8))
    path = tmp_path / "labels"
    path.write_bytes(content + b"\0" if change is None else content[change])
    with pytest.raises(
        DataError, match=rf"{path}: expected 12 values \(shape \[12\]\), found {found}"
    ):
        read_idx(path, 1)


def test_a_header_that_claims_the_moon_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(bytes((0, 0, 8, 3)) + b"\x7f\xff\xff\xff" * 3)
    with pytest.raises(DataError, match="3 sizes of at most 2147483648 bytes together"):
        read_idx(path, 3)


def test_pictures_and_labels_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    labels = idx_bytes(np.zeros(4, dtype=np.uint8))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    with pytest.raises(DataError, match=r"expected 5 labels, one for each picture in .*, found 4"):
        load("mnist", tmp_path)


def test_labels_must_be_among_the_classes(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    labels = idx_bytes(np.full(5, 12, dtype=np.uint8))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    with pytest.raises(DataError, match="expected labels from 0 to 9, found 12"):
        load("mnist", tmp_path)


def test_pictures_must_be_square(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    pictures = idx_bytes(np.zeros((5, 28, 27), dtype=np.uint8))
    (tmp_path / TRAIN).write_bytes(gzip.compress(pictures))
    with pytest.raises(DataError, match="expected square pictures, found 28x27"):
        load("mnist", tmp_path)


def test_the_real_mnist(folder_with: Callable[..., Path]) -> None:
    """Known of the published files: 5,923 zeros in training, the first digit is a 5, and the mean
    and standard deviation that everyone normalises with."""
    train, test = load("mnist", folder_with("mnist"))
    assert train.inputs.shape == (60000, 28, 28)
    assert test.inputs.shape == (10000, 28, 28)
    assert int((train.labels == 0).sum()) == 5923
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    floats = train.inputs.double() / 255
    assert float(floats.mean()) == pytest.approx(0.1307, abs=5e-5)
    assert float(floats.std()) == pytest.approx(0.3081, abs=5e-5)
