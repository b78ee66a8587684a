from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uclearn.errors import DataError
from uclearn.tasks.sources.arrays import from_arrays, load_npz


def test_tensors_are_taken_as_they_are() -> None:
    inputs = torch.zeros(3, 2, dtype=torch.uint8)
    examples = from_arrays(inputs, torch.tensor([0, 2, 1], dtype=torch.int32))
    assert examples.inputs.data_ptr() == inputs.data_ptr()
    assert examples.labels.dtype == torch.int64


def test_numpy_doubles_become_what_networks_are_made_of() -> None:
    examples = from_arrays(np.zeros((3, 2)), np.array([0.5, 1.5, 2.5]))
    assert (examples.inputs.dtype, examples.labels.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (np.zeros((3, 1)), np.zeros(2), "got 3 inputs and 2 targets"),
        (np.array([[np.nan]]), np.zeros(1), "`inputs` must be finite, got NaN or infinity"),
        (np.zeros((1, 1)), np.array([np.inf]), "`targets` must be finite"),
        (np.zeros((2, 1)), np.array([0, -1]), r"counted from 0, got shape \(2,\), smallest -1"),
        (np.zeros((2, 1)), np.array([[0], [1]]), r"one for each example.* got shape \(2, 1\)"),
        (np.array(["a"]), np.zeros(1), "`inputs` must hold numbers, got <U1"),
        (np.array(1.0), np.zeros(1), "`inputs` must have a dimension for the examples"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_arrays(inputs, targets)


def whole() -> dict[str, Any]:
    return {
        "x_train": np.arange(6, dtype=np.uint8).reshape(3, 2),
        "y_train": np.array([0, 1, 2]),
        "x_test": np.zeros((1, 2), dtype=np.uint8),
        "y_test": np.array([2]),
    }


def test_an_npz_file_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **whole())
    train, test = load_npz(tmp_path / "own.npz")
    assert train.inputs.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert train.labels.tolist() == [0, 1, 2]
    assert test.labels.tolist() == [2]


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    arrays = whole()
    del arrays["y_test"]
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(
        DataError, match="x_train, y_train, x_test, y_test, found x_train, y_train, x_test"
    ):
        load_npz(tmp_path / "own.npz")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **(whole() | {"y_train": np.array([{}, {}, {}], dtype=object)}))
    with pytest.raises(
        DataError, match=r"own\.npz: x_train and y_train: Object arrays cannot be loaded"
    ):
        load_npz(tmp_path / "own.npz")


def test_arrays_that_do_not_fit_name_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **(whole() | {"y_train": np.array([0])}))
    with pytest.raises(
        DataError, match=r"own\.npz: x_train and y_train: .* got 3 inputs and 1 targets"
    ):
        load_npz(tmp_path / "own.npz")


def test_damaged_and_absent_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with pytest.raises(DataError, match=r"own\.npz: expected an npz file, found nothing"):
        load_npz(path)
    np.savez(path, **whole())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(
        DataError, match=r"own\.npz: expected a whole npz file, found a damaged one"
    ):
        load_npz(path)
    np.savez(path, **whole())
    content = bytearray(path.read_bytes())
    content[140] ^= 0xFF  # within the first array: its checksum no longer fits
    path.write_bytes(bytes(content))
    with pytest.raises(
        DataError, match=r"own\.npz: expected a whole npz file, found a damaged one"
    ):
        load_npz(path)
    path.write_bytes(b"neither")
    with pytest.raises(
        DataError, match=r"own\.npz: expected a whole npz file, found a damaged one"
    ):
        load_npz(path)
