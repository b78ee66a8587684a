"""`.npz` files with the arrays x and y, and if wanted task, split and group."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.own.examples import (
    PER_ROW,
    Examples,
    check_memory,
    in_order,
    part_numbers,
    task_names,
)

_OTHERS = ("task", "split", "group")
_FEWEST_PIXELS = 8  # of a side: what is smaller is a table, not a picture


def read_npz(path: Path, *, regression: bool) -> Examples:
    """The arrays x (examples, ...) and y, and if there are any task, split and group."""
    arrays = arrays_of(path)
    missing = [name for name in ("x", "y") if name not in arrays]
    if missing:
        raise DataError(
            f"{path}: expected the arrays x and y (and, if wanted, task, split and group), found "
            f"{', '.join(arrays) or 'none'}."
        )
    inputs = as_inputs(arrays["x"], str(path))
    for name in ("y", *_OTHERS):
        if name in arrays and arrays[name].shape[:1] != (len(inputs),):
            raise DataError(
                f"{path}: expected {name} to hold one value for each of the {len(inputs)} examples "
                f"in x, found shape {arrays[name].shape}."
            )
    known = {name: Words.of(path, name, arrays[name]) for name in _OTHERS if name in arrays}
    classes: tuple[str, ...] = ()
    if regression:
        targets = _numbers(path, arrays["y"])
    else:
        labels = Words.of(path, "y", arrays["y"])
        classes = in_order(labels.words)
        targets = labels.places(classes)
    tasks = parts = groups = None
    names: tuple[str, ...] = ()
    if "task" in known:
        names = task_names(known["task"].words)
        tasks = known["task"].places(names)
    if "split" in known:
        parts = part_numbers(known["split"].all(), lambda place: f"{path}, row {place} of split")
    if "group" in known:
        groups = known["group"].places(known["group"].words)
    return Examples(inputs, targets, classes, tasks, names, parts, groups, first_row=0)


def as_inputs(values: NDArray[Any], where: str) -> Tensor:
    """Numbers as they are stored: bytes stay bytes; pictures get their channels in front."""
    if values.dtype.kind not in "fiub" or not values.ndim:
        raise DataError(f"{where}: expected x to hold numbers, found {values.dtype}.")
    if not len(values):
        raise DataError(f"{where}: expected at least one example in x, found none.")
    if values.dtype.kind == "f":
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            first = int((~finite).argmax())
            raise DataError(
                f"{where}, row {first} of x: found NaN or infinity (in {int((~finite).sum())} rows "
                "altogether). Fill or remove these rows; in CSV and Parquet, empty cells are "
                "filled for you."
            )
    kept = values if values.dtype == np.uint8 and values.ndim > 2 else values.astype(np.float32)
    tensor = torch.from_numpy(np.ascontiguousarray(kept))
    if tensor.dim() == 1:
        return tensor[:, None]
    if tensor.dim() == 4 and tensor.shape[3] in (1, 3) and tensor.shape[1] not in (1, 3):
        return tensor.permute(0, 3, 1, 2).contiguous()  # channels stood last
    if tensor.dim() == 3 and min(tensor.shape[1:]) >= _FEWEST_PIXELS:
        return tensor[:, None]  # grey pictures
    return tensor if tensor.dim() == 4 else tensor.flatten(1).float()


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays, after a look at what their headers announce."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_announced(path, archive)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except DataError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path}: expected a whole npz file of numbers and words, found a damaged one or one "
            f"with Python objects ({error}). Write it by numpy.savez(path, x=x, y=y)."
        ) from error


def _check_announced(path: Path, archive: zipfile.ZipFile) -> None:
    names = Counter(entry.filename for entry in archive.infolist())
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise DataError(f"{path}: holds two arrays of one name, {twice[0]}. Write it anew.")
    needed = 0
    for entry in archive.infolist():
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(file)
        announced = math.prod(shape) * dtype.itemsize
        if announced > entry.file_size:
            raise DataError(
                f"{path}: {entry.filename} announces {announced:,} bytes and holds "
                f"{entry.file_size:,}. It is damaged or meant to harm; nothing was read."
            )
        needed += announced + 4 * math.prod(shape)
        if entry.filename == "x.npy" and shape:
            needed += PER_ROW * shape[0]
    check_memory(path, needed, "Keep fewer examples, smaller ones, or bytes (uint8) for pictures.")


class Words(NamedTuple):
    """An array of words or whole numbers: the different ones as they appear, and which is where."""

    words: tuple[str, ...]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, path: Path, name: str, values: NDArray[Any]) -> Words:
        """What array `name` of a file holds, one for each example."""
        if values.ndim != 1 or values.dtype.kind not in "iuUb":
            hint = " Numbers to be predicted: say `--target y`." if name == "y" else ""
            raise DataError(
                f"{path}: expected {name} to hold one whole number or word for each example, found "
                f"{values.dtype} of shape {values.shape}.{hint}"
            )
        different, first, codes = np.unique(values, return_index=True, return_inverse=True)
        order = first.argsort()
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return cls(tuple(str(value) for value in different[order].tolist()), places[codes])

    def places(self, names: Sequence[str]) -> Tensor:
        """(examples,) the place of each word among `names`."""
        order = {name: place for place, name in enumerate(names)}
        table = np.array([order[word] for word in self.words], dtype=np.int64)
        return torch.from_numpy(table[self.codes])

    def all(self) -> list[str]:
        """One for each example."""
        return [self.words[code] for code in self.codes.tolist()]


def _numbers(path: Path, values: NDArray[Any]) -> Tensor:
    if values.dtype.kind not in "fiu" or values.size != len(values):
        raise DataError(
            f"{path}: expected y to hold one number for each example, found {values.dtype} of "
            f"shape {values.shape}."
        )
    numbers = torch.from_numpy(values.astype(np.float32).reshape(-1))
    return check_finite(numbers, lambda place: f"{path}, row {place} of y")


def check_finite(numbers: Tensor, where: Any) -> Tensor:
    """Numbers to be predicted, if all of them are there; `where` names an example."""
    unknown = (~torch.isfinite(numbers)).nonzero().flatten()
    if len(unknown):
        raise DataError(
            f"{where(int(unknown[0]))}: the number to be predicted is missing or infinite (in "
            f"{len(unknown)} rows altogether). Remove these rows."
        )
    return numbers
