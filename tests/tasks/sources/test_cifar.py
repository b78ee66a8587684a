from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tasks.sources.published import Bytes, cifar_names, cifar_pickle
from uclearn.errors import DataError
from uclearn.tasks.sources.cifar import load_cifar10, load_cifar100, read_binary, read_python

BATCHES = [f"data_batch_{number}" for number in range(1, 6)]


def batch(count: int, seed: int) -> tuple[Bytes, list[int]]:
    draw = np.random.default_rng(seed)
    return (
        draw.integers(0, 256, (count, 3072), dtype=np.uint8),
        draw.integers(0, 10, count).tolist(),
    )


def write_cifar10(folder: Path, binary: bool) -> tuple[Bytes, list[int]]:
    """All six files with 2 examples each; returned is what training should be."""
    place = folder / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py")
    place.mkdir()
    pixels, labels = [], []
    for seed, name in enumerate([*BATCHES, "test_batch"]):
        own, classes = batch(2, seed)
        if binary:
            column = np.array(classes, dtype=np.uint8)[:, None]
            (place / f"{name}.bin").write_bytes(np.hstack([column, own]).tobytes())
        else:
            (place / name).write_bytes(cifar_pickle(own, classes))
        if name != "test_batch":
            pixels.append(own)
            labels += classes
    return np.concatenate(pixels), labels


@pytest.mark.parametrize("binary", [True, False])
def test_both_versions_of_cifar10_are_read(tmp_path: Path, binary: bool) -> None:
    pixels, labels = write_cifar10(tmp_path, binary)
    train, test = load_cifar10(tmp_path)
    assert np.array_equal(train.inputs.numpy(), pixels.reshape(10, 3, 32, 32))
    assert train.labels.tolist() == labels
    assert test.inputs.shape == (2, 3, 32, 32)
    assert train.names[:2] == ("airplane", "automobile")


def test_cifar100_is_read_with_its_fine_labels(tmp_path: Path) -> None:
    place = tmp_path / "cifar-100-python"
    place.mkdir()
    pixels, _ = batch(3, 0)
    for name in ("train", "test"):
        (place / name).write_bytes(cifar_pickle(pixels, [99, 0, 7], "fine_labels"))
    (place / "meta").write_bytes(cifar_names([f"class {n}" for n in range(100)]))
    train, _ = load_cifar100(tmp_path)
    assert train.labels.tolist() == [99, 0, 7]
    assert train.names[99] == "class 99"
    train.inputs[0, 0, 0, 0] = 5  # the tensor is its own, not the pickle's bytes


def test_the_helper_writes_what_numpy_reads() -> None:
    """So that the tests above speak of the published format, not of a misunderstanding."""
    pixels, labels = batch(2, 0)
    content = pickle.loads(
        cifar_pickle(pixels, labels, module="numpy._core.multiarray"), encoding="bytes"
    )
    assert np.array_equal(content[b"data"], pixels)
    assert content[b"labels"] == labels


class Touch:
    """A pickle that, once loaded, has run something."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_foreign_class_is_refused_and_nothing_is_run(tmp_path: Path) -> None:
    path, trace = tmp_path / "data_batch_1", tmp_path / "trace"
    path.write_bytes(pickle.dumps({b"data": Touch(trace), b"labels": []}, protocol=4))
    with pytest.raises(
        DataError, match=r"nothing but NumPy arrays .* found \w+\.mkdir\. Nothing was run"
    ):
        read_python(path, b"labels", 10)
    assert not trace.exists()


@pytest.mark.parametrize(
    "name",
    [
        b"cnumpy\nload\n",
        b"cnumpy\nndarray.tofile\n",
        b"c__builtin__\neval\n",
        b"cnumpy.core.multiarray\nscalar\n",
    ],
)
def test_only_the_three_published_names_are_admitted(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02" + name + b"(tR.")
    with pytest.raises(DataError, match="Nothing was run"):
        read_python(path, b"labels", 10)


PIXELS, LABELS = batch(3, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            cifar_pickle(PIXELS, LABELS)[:500],
            "expected a whole pickle, found a damaged or truncated one",
        ),
        (b"", "expected a whole pickle"),
        (b"\x80\x02K\x01.", "expected a dictionary, found int"),
        (pickle.dumps({"a": 1}, protocol=2), r"the entries 'data' and 'labels', found \['a'\]"),
        (
            pickle.dumps({b"data": 1, b"labels": [1]}, 0),
            "expected a whole pickle|nothing but NumPy",
        ),
        (cifar_pickle(PIXELS, [1, 2]), "expected 3 labels, one for each picture, found 2"),
        (
            cifar_pickle(PIXELS, [1, 2, 10]),
            "expected labels from 0 to 9, found labels from 1 to 10",
        ),
        (cifar_pickle(PIXELS[:, 1:], LABELS), r"\(examples, 3072\), found \(3, 3071\)"),
        (cifar_pickle(PIXELS, LABELS, kind="f4"), "expected an array of unsigned bytes"),
    ],
)
def test_bad_batches_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_python(path, b"labels", 10)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(3073 * 2 - 1), "whole number of records of 3073 bytes, found 6145 bytes"),
        (b"", "found 0 bytes"),
        (b"\x0a" + bytes(3072), "expected labels from 0 to 9, found labels from 10 to 10"),
    ],
)
def test_bad_binaries_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_binary(path)


def test_names_must_be_a_hundred(tmp_path: Path) -> None:
    place = tmp_path / "cifar-100-python"
    place.mkdir()
    for name in ("train", "test"):
        (place / name).write_bytes(cifar_pickle(PIXELS, LABELS, "fine_labels"))
    (place / "meta").write_bytes(cifar_names(["apple"]))
    with pytest.raises(DataError, match="expected 100 'fine_label_names'"):
        load_cifar100(tmp_path)


@pytest.mark.slow
def test_the_real_cifar100(folder_with: Callable[..., Path]) -> None:
    """Known of the published files: 500 and 100 examples of each class; apples come first; the mean
    colour of the training set is (0.5071, 0.4865, 0.4409), as is widely used."""
    train, test = load_cifar100(folder_with("cifar100"))
    assert train.labels.bincount().tolist() == [500] * 100
    assert test.labels.bincount().tolist() == [100] * 100
    assert train.names[0] == "apple"
    assert train.names[99] == "worm"
    mean = train.inputs.to(torch.float64).mean((0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.5071, 0.4865, 0.4409], abs=1e-4)


def test_the_real_cifar10(folder_with: Callable[..., Path]) -> None:
    train, test = load_cifar10(folder_with("cifar10"))
    assert train.labels.bincount().tolist() == [5000] * 10
    assert test.labels.bincount().tolist() == [1000] * 10
