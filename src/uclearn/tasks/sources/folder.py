"""Folders of pictures, one per class: what the loaders of published ones need, and a cache.

Files are read with suspicion: sizes are checked before a single pixel is decoded. Thousands of
small files are read once and kept as one, in the data folder, or in the platform's cache folder if
the data folder cannot be written to. That file remembers which files it was made of, so it is made
anew when they change; it can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.dataset import cache_folder

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


_LAYOUT = b"1"  # to be raised when the cached tensors mean something else


def fingerprint(folders: Iterable[Path], base: Path) -> str:
    """A digest of the names, sizes and times of all files in `folders` (named as below `base`)."""
    digest = hashlib.sha256(_LAYOUT)
    for folder in folders:
        digest.update(f"{folder.relative_to(base)}\n".encode())
        with os.scandir(folder) as entries:  # pathlib takes five times as long for 500,000 files
            rows = [(entry.name, entry.stat()) for entry in entries]
        for name, status in sorted(rows, key=lambda row: row[0]):
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def cached(
    folder: Path | None, name: str, key: str, build: Callable[[], tuple[dict[str, Tensor], str]]
) -> tuple[dict[str, Tensor], str]:
    """The tensors and the note that `build` returns, or those kept as `name` under this `key`: in
    `folder` or, where that cannot be written to or is None, in the cache folder."""
    places = [cache_folder() / "arrays" / f"{key[:16]}-{name}"]
    if folder is not None:
        places.insert(0, folder / ".uclearn" / name)
    for place in places:
        if (kept := _read(place, key)) is not None:
            return kept
    tensors, note = build()
    for place in places:
        with contextlib.suppress(OSError):
            _write(place, tensors, {"key": key, "note": note})
            break
    return tensors, note


def _read(place: Path, key: str) -> tuple[dict[str, Tensor], str] | None:
    try:
        with safe_open(place, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("key") != key:
                return None
            names: list[str] = file.keys()
            return {name: file.get_tensor(name) for name in names}, about["note"]
    except (OSError, SafetensorError):
        return None  # absent or damaged: it is made anew


def _write(place: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """Aside, then renamed: whoever reads at the same time sees the old file or the new one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        save_file(tensors, aside, metadata=about)
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)
