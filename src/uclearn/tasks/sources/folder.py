"""A user's own pictures: a folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from uclearn.errors import DataError, SettingError
from uclearn.tasks.sources.examples import Examples
from uclearn.tasks.sources.pictures import class_folders, picture_files, read_picture

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "WEBP")


def load(folder: str | Path, side: int | None = None, colour: bool = True) -> Examples:
    """The pictures in `folder`/CLASS/*.png (or jpg, bmp, webp), classes and files sorted by name.

    uint8, (examples, 3, side, side) in colour and (examples, side, side) in grey. All pictures must
    be square; without `side` they must also be of one size, with it they are scaled to it.
    """
    if side is not None and side < 1:
        raise SettingError(f"`side` must be at least 1, got {side}. It is in pixels.")
    classes = class_folders(Path(folder).expanduser())
    pictures: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for label, root in enumerate(classes):
        for path in picture_files(root, _SUFFIXES):
            picture = _scaled(read_picture(path, "RGB" if colour else "L", None, _FORMATS), side)
            if pictures and picture.shape != pictures[0].shape:
                wide, found = pictures[0].shape[1], picture.shape[1]
                raise DataError(
                    f"{path}: expected {wide}x{wide} pixels like the first picture, found "
                    f"{found}x{found}. Give a `side` to scale all of them to."
                )
            pictures.append(picture)
            labels.append(label)
    inputs = torch.from_numpy(np.stack(pictures))
    if colour:
        inputs = inputs.permute(0, 3, 1, 2).contiguous()  # (examples, 3, side, side)
    return Examples(inputs, torch.tensor(labels), tuple(root.name for root in classes))


def _scaled(picture: NDArray[np.uint8], side: int | None) -> NDArray[np.uint8]:
    if side is None or picture.shape[0] == side:
        return picture
    scaled = Image.fromarray(picture).resize((side, side), Image.Resampling.BOX)
    return np.asarray(scaled)
