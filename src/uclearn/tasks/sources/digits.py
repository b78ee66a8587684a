"""The UCI handwritten digits that come with the package: small, real, no download; and the two
benchmarks that are made of them."""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from uclearn.tasks.data import Data
from uclearn.tasks.task import TaskSequence, hold_out, permuted, split
from uclearn.tasks.transforms import Flatten, Normalise, Then

Folder = str | Path | None

DIGITS_SCALE = Normalise(peak=16)
_PAIRS = tuple((first, first + 1) for first in range(0, 10, 2))
_TEST = 0.2  # they come without a test part


def load() -> tuple[Tensor, Tensor]:
    """Return the pictures, uint8 of shape (1797, 8, 8) with values 0..16, and their digits.

    The digits are int64 of shape (1797,), 0..9. Source and licence: `uclearn/data/README.md`.
    Divide by 16 to train on them:

    >>> images, digits = load()
    >>> images.shape, digits[:5].tolist()
    (torch.Size([1797, 8, 8]), [0, 1, 2, 3, 4])
    >>> inputs = images.float() / 16
    >>> inputs.max()
    tensor(1.)
    """
    packed = files("uclearn").joinpath("data", "digits.csv.gz").read_bytes()
    lines = gzip.decompress(packed).decode("ascii").splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)  # (1797, 64 pixels + 1 digit)
    images = torch.from_numpy(table[:, :-1].copy()).reshape(-1, 8, 8)
    digits = torch.from_numpy(table[:, -1].astype(np.int64))
    return images, digits


def permuted_digits(seed: int, folder: Folder, tasks: int) -> TaskSequence:
    """The UCI digits `tasks` times, their pixels in a new order each time."""
    train, test = _digits(seed)
    return permuted(train, test, tasks, seed, name="permuted-digits")


def split_digits(seed: int, folder: Folder, tasks: int) -> TaskSequence:
    """0/1, 2/3, 4/5, 6/7, 8/9 of the UCI digits."""
    train, test = _digits(seed)
    return split(train, test, _PAIRS, name="split-digits").take(tasks)


def _digits(seed: int) -> tuple[Data, Data]:
    images, labels = load()
    whole = Data(images, labels, prepare=Then((DIGITS_SCALE, Flatten())))
    return hold_out(whole, _TEST, seed, "digits test")
