from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from uclearn.errors import DataError
from uclearn.tasks.sources.arrays import from_arrays


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
