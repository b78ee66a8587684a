"""The UCI handwritten digits that come with the package: small, real, no download."""

import gzip
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor


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
