"""What a source returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Examples(NamedTuple):
    """Examples as they lie in the files: nothing scaled, nothing copied per task."""

    inputs: Tensor  # (examples, ...): uint8 for pictures
    labels: Tensor  # (examples,) int64, or float targets for regression
    names: tuple[str, ...] = ()  # of the classes, by label
    skipped: tuple[str, ...] = ()  # files that could not be read and were left out


class TrainTest(NamedTuple):
    """A data set that is published in two parts."""

    train: Examples
    test: Examples
