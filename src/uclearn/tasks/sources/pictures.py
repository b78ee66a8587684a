"""Picture files to arrays, with suspicion: sizes are checked before a single pixel is decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from uclearn.errors import DataError

MOST_PIXELS = 2**24  # 4096x4096; a few bytes of PNG can claim billions


class UnreadablePictureError(DataError):
    """The file is not a picture, or breaks off in the middle."""


def read_picture(
    path: Path,
    mode: str = "L",
    side: int | None = None,
    formats: tuple[str, ...] = ("PNG",),
) -> NDArray[np.uint8]:
    """A square picture as bytes: (height, width) for mode "L" (grey), (height, width, 3) for "RGB".

    `side` is the only size that is accepted, None accepts every square up to 4096x4096.
    """
    try:
        with Image.open(path, formats=formats) as image:
            _check_size(path, image.size, side)
            if image.mode.startswith(("I", "F")):
                raise DataError(f"{path}: expected 8 bits per pixel, found mode {image.mode}.")
            return np.asarray(image.convert(mode))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{path}: expected at most {MOST_PIXELS} pixels, found far more ({error}). "
            "Nothing was decoded."
        ) from error
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, EOFError) as error:  # what Pillow raises for broken files
        raise UnreadablePictureError(
            f"{path}: expected a {' or '.join(formats)} picture, found {path.stat().st_size} bytes "
            f"that are not a whole one ({error})."
        ) from error


def class_folders(folder: Path) -> list[Path]:
    """The folders inside `folder`, sorted by name; hidden ones do not count."""
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a folder with one folder per class, found none.")
    found = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not found:
        raise DataError(f"{folder}: expected one folder per class, found no folders in it.")
    return found


def picture_files(folder: Path, suffixes: tuple[str, ...] = (".png",)) -> list[Path]:
    """The pictures in one class's folder, sorted by name; at least one."""
    found = sorted(
        p
        for p in folder.iterdir()
        if p.suffix.lower() in suffixes and not p.name.startswith(".") and p.is_file()
    )
    if not found:
        raise DataError(
            f"{folder}: expected at least one picture ({', '.join(suffixes)}), found none."
        )
    return found


def _check_size(path: Path, size: tuple[int, int], side: int | None) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise DataError(
            f"{path}: expected at most {MOST_PIXELS} pixels, found {width}x{height}. "
            "Nothing was decoded."
        )
    if side is not None and size != (side, side):
        raise DataError(f"{path}: expected {side}x{side} pixels, found {width}x{height}.")
    if width != height:
        raise DataError(
            f"{path}: expected a square picture, found {width}x{height}. Crop or pad it first."
        )
