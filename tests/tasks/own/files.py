"""Small files of every kind, with something to be learned in them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def blobs(
    classes: int = 4, each: int = 30, features: int = 6, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Classes that lie apart, each along an axis of its own."""
    draw = np.random.default_rng(seed)
    y = np.arange(classes * each) % classes
    x = draw.normal(size=(len(y), features)).astype(np.float32)
    x[np.arange(len(y)), y] += 4
    return x, y


def write_npz(path: Path, **arrays: Any) -> Path:
    x, y = blobs()
    np.savez(path, **{"x": x, "y": y, **arrays})
    return path


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def machines(path: Path, each: int = 40) -> Path:
    """Wear of two machines: numbers, words, and cells that are missing."""
    draw = np.random.default_rng(0)
    rows = []
    for machine in ("lathe", "drill"):
        for number in range(each):
            worn = number % 2
            heat = "" if number % 10 == 3 else f"{draw.normal(20 + 10 * worn):.3f}"
            rows.append([heat, "red" if number % 3 else "blue", machine, "worn" if worn else "ok"])
    return write_csv(path, ["heat", "colour", "task", "label"], rows)
