"""The idx format of MNIST, Fashion-MNIST and KMNIST, compressed or not."""

from __future__ import annotations

import gzip
import io
import zlib
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import Examples, TrainTest, data_folder, locate

_LARGEST = 2**31  # bytes; the published files hold 47 million
_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion-mnist": (
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    "kmnist": ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
}


def load(name: str = "mnist", folder: str | Path | None = None) -> TrainTest:
    """MNIST or its kin ("fashion-mnist", "kmnist"): uint8 pictures (examples, 28, 28)."""
    paths = locate(dataset(name), data_folder(folder))
    return TrainTest(_part(paths, "train", _NAMES[name]), _part(paths, "t10k", _NAMES[name]))


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The bytes of one idx file as a uint8 tensor with that many dimensions.

    The format: two zero bytes, a byte for the type (8: unsigned byte), a byte for the number of
    dimensions, each size as a big-endian 32-bit number, then the values, last dimension fastest.
    """
    try:
        with _opened(path) as file:
            return _read(path, file, dimensions)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"{path}: expected a whole {'gzip' if path.suffix == '.gz' else 'idx'} file, "
            f"found a damaged or truncated one ({error}). Delete it and get it again."
        ) from error


def _part(paths: dict[str, Path], prefix: str, names: tuple[str, ...]) -> Examples:
    pictures, labelled = paths[f"{prefix}-images-idx3-ubyte"], paths[f"{prefix}-labels-idx1-ubyte"]
    images, labels = read_idx(pictures, 3), read_idx(labelled, 1)
    if len(images) != len(labels):
        raise DataError(
            f"{labelled}: expected {len(images)} labels, one for each picture in {pictures.name}, "
            f"found {len(labels)}."
        )
    if images.shape[1] != images.shape[2]:
        raise DataError(
            f"{pictures}: expected square pictures, found {images.shape[1]}x{images.shape[2]}."
        )
    if len(labels) and int(labels.max()) >= len(names):
        raise DataError(
            f"{labelled}: expected labels from 0 to {len(names) - 1}, found {int(labels.max())}."
        )
    return Examples(images, labels.long(), names)


def _opened(path: Path) -> io.BufferedIOBase:
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def _read(path: Path, file: io.BufferedIOBase, dimensions: int) -> Tensor:
    magic = file.read(4)
    expected = bytes((0, 0, 8, dimensions))
    if magic != expected:
        raise DataError(
            f"{path}: expected the magic number {expected.hex()} (unsigned bytes, {dimensions} "
            f"dimensions), found {magic.hex() or 'an empty file'}."
        )
    header = file.read(4 * dimensions)
    sizes = [int.from_bytes(header[i : i + 4], "big") for i in range(0, 4 * dimensions, 4)]
    if len(header) < 4 * dimensions or prod(sizes) > _LARGEST:
        raise DataError(
            f"{path}: expected {dimensions} sizes of at most {_LARGEST} bytes together, "
            f"found {sizes}."
        )
    values = torch.empty(sizes, dtype=torch.uint8)
    read = _fill(file, values.numpy().reshape(-1).data)
    surplus = len(file.read(1))
    if read != values.numel() or surplus:
        raise DataError(
            f"{path}: expected {values.numel()} values (shape {sizes}), "
            f"found {'more' if surplus else read}."
        )
    return values


def _fill(file: io.BufferedIOBase, buffer: memoryview) -> int:
    """Read straight into `buffer`, so that no second copy of the data is ever in memory."""
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done : done + 2**22])
        if not count:
            break
        done += count
    return done
