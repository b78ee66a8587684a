from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.tasks.sources.published import write_mnist
from uclearn.tasks.sources.catalogue import CATALOGUE, dataset
from uclearn.tasks.sources.verify import content_of, listing, md5_of, status, twins


def test_an_empty_folder_lists_everything_as_missing(tmp_path: Path) -> None:
    rows = listing(tmp_path)
    assert [row.name for row in rows] == list(CATALOGUE)
    assert {row.state for row in rows} == {"missing"}
    assert rows[0].detail == f"would go to {tmp_path / 'mnist'}"
    assert rows[0].files[0].path == tmp_path / "mnist" / "train-images-idx3-ubyte.gz"


def test_some_files_are_not_all(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    row = status("mnist", tmp_path)
    assert row.state == "incomplete"
    assert row.detail == f"missing: {tmp_path / 'mnist' / 't10k-labels-idx1-ubyte.gz'}"


def test_files_that_are_not_the_published_ones_are_damaged(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    row = status("mnist", tmp_path)
    assert row.state == "damaged"
    published = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
    found = hashlib.md5((tmp_path / "mnist/train-images-idx3-ubyte.gz").read_bytes()).hexdigest()
    assert f"train-images-idx3-ubyte.gz: expected md5 {published}, found {found}" in row.detail


def test_files_without_a_known_checksum_are_unchecked(tmp_path: Path) -> None:
    write_mnist(tmp_path / "fashion-mnist", packed=False)
    row = status("fashion-mnist", tmp_path)
    assert row.state == "unchecked"
    assert {file.state for file in row.files} == {"unchecked"}


def test_pictures_that_do_not_load_or_differ_are_damaged(tmp_path: Path) -> None:
    (tmp_path / "notMNIST_small").mkdir()
    row = status("notmnist-small", tmp_path)
    assert row.state == "damaged"
    assert "found no folder A" in row.detail


def test_the_digests_are_the_plain_ones(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert md5_of(tmp_path / "file") == "900150983cd24fb0d6963f7d28e17f72"  # RFC 1321
    tensors = torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([[3]], dtype=torch.uint8)
    assert content_of(*tensors) == hashlib.sha256(b"\x01\x02\x03").hexdigest()


@pytest.mark.parametrize("name", ["mnist", "cifar100", "cifar10", "notmnist-small", "omniglot"])
def test_the_real_data_are_verified(folder_with: Callable[..., Path], name: str) -> None:
    row = status(name, folder_with(name))
    assert row.state == "verified", row.detail


def test_pictures_that_stand_on_both_sides_are_counted() -> None:
    """A divided pair is torn apart in 2 * 0.2 * 0.8 of all cases; a triple counts too."""
    one, two, three = (torch.full((1, 2, 2), value, dtype=torch.uint8) for value in (1, 2, 3))
    several, across = twins(torch.cat([one, two, one, three, three, three]), 0.2)
    assert several == 5
    assert across == pytest.approx(2 * 0.2 * 0.8 + 3 * 0.2 * (1 - 0.2**2))


def test_the_small_notmnist_says_what_is_there_more_than_once(
    folder_with: Callable[..., Path],
) -> None:
    row = status("notmnist-small", folder_with("notmnist-small"))
    assert "728 of 18,724 pictures are there more than once, so that about 127 of" in row.detail


def test_the_checksums_of_the_unpacked_files_belong_to_the_packed_ones(
    folder_with: Callable[..., Path], tmp_path: Path
) -> None:
    folder = folder_with("mnist")
    (tmp_path / "mnist").mkdir()
    for file in dataset("mnist").files:
        packed = folder / file.versions[0].path
        if not packed.exists():
            pytest.skip("MNIST lies unpacked in UCLEARN_DATA")
        (tmp_path / file.versions[1].path).write_bytes(gzip.decompress(packed.read_bytes()))
    assert status("mnist", tmp_path).state == "verified"
