"""notMNIST, small and large: letters A to J, a folder of PNG files each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import Examples, data_folder, locate
from uclearn.tasks.sources.folder import (
    UnreadablePictureError,
    cached,
    fingerprint,
    picture_files,
    read_picture,
)

LETTERS = tuple("ABCDEFGHIJ")
SMALL_TEST = 0.2
"""Share of the small set to test by: it comes without a test part."""
_MOST_BROKEN = 0.01  # of the files; the published sets have a handful


def load(size: str = "small", folder: str | Path | None = None) -> Examples:
    """notMNIST of that `size` ("small" or "large"): uint8 pictures (examples, 28, 28), sorted by
    letter and file name. `skipped` lists the broken files; both published sets have a few."""
    base = data_folder(folder)
    root = locate(dataset(f"notmnist-{size}"), base)["letters"]
    folders = [_folder(root, letter) for letter in LETTERS]
    tensors, note = cached(
        base,
        f"notmnist-{size}.safetensors",
        fingerprint(folders, base),
        lambda: _read_all(root, folders),
    )
    return Examples(tensors["inputs"], tensors["labels"], LETTERS, tuple(json.loads(note)))


def _folder(root: Path, letter: str) -> Path:
    if not (root / letter).is_dir():
        raise DataError(f"{root}: expected the folders A to J, found no folder {letter}.")
    return root / letter


def _read_all(root: Path, folders: list[Path]) -> tuple[dict[str, Tensor], str]:
    pictures, labels, broken = [], [], []
    for label, folder in enumerate(folders):
        for path in picture_files(folder):
            try:
                pictures.append(read_picture(path, side=28))
                labels.append(label)
            except UnreadablePictureError:
                broken.append(str(path.relative_to(root)))
    if len(broken) > max(10, _MOST_BROKEN * (len(pictures) + len(broken))):
        raise DataError(
            f"{root}: expected a handful of broken files at most, found {len(broken)} of "
            f"{len(pictures) + len(broken)}, the first {broken[0]}. Get the archive again."
        )
    inputs = torch.from_numpy(np.stack(pictures))
    return {"inputs": inputs, "labels": torch.tensor(labels)}, json.dumps(broken)
