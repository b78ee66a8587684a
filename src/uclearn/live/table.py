"""Examples from a file: CSV with a column of labels, or npz with the arrays `x` and `y`."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uclearn.errors import DataError


@dataclass(frozen=True)
class Table:
    """What stood in a file."""

    inputs: Tensor
    """(examples, ...) float32."""
    labels: tuple[str, ...] | None
    """One for each example, as a word; None where the file has none."""
    columns: tuple[str, ...] = ()
    """Names of the features, if the file names them."""

    def numbered(self, known: Sequence[str]) -> Tensor:
        """(examples,) the place of each label among the `known` ones."""
        assert self.labels is not None
        unknown = sorted(set(self.labels) - set(known))
        if unknown:
            raise DataError(
                f"The labels must be among {', '.join(known)}, which have outputs, got "
                f"{', '.join(unknown[:5])}{', ...' if len(unknown) > 5 else ''} as well. Begin a "
                "task of its own (leave out `--task`), or with one head say `--add-classes`."
            )
        places = {label: place for place, label in enumerate(known)}
        return torch.tensor([places[label] for label in self.labels])


def classes_of(labels: Sequence[str]) -> tuple[str, ...]:
    """The different labels in order: numbers by value, words by the alphabet.

    >>> classes_of(["10", "9", "10"]), classes_of(["worn", "ok"])
    (('9', '10'), ('ok', 'worn'))
    """
    different = set(labels)
    if all(label.lstrip("-").isdecimal() for label in different):
        return tuple(sorted(different, key=int))
    return tuple(sorted(different))


def read_table(path: Path, label: str | None, *, labelled: bool) -> Table:
    """The examples in a `.csv` or `.npz` file.

    If there must be labels (`labelled`), they are in the CSV's column `label` (None: the last one);
    if not, that column is left out.
    """
    if not path.exists():
        raise DataError(f"{path}: expected a .csv or .npz file, found nothing.")
    if path.suffix == ".npz":
        return _from_npz(path, labelled)
    if path.suffix == ".csv":
        return _from_csv(path, label, labelled)
    raise DataError(f"{path}: expected a .csv or .npz file, found {path.suffix or 'no ending'}.")


def _from_npz(path: Path, labelled: bool) -> Table:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: expected a whole npz file of numbers ({error}).") from error
    wanted = ("x", "y") if labelled else ("x",)
    if any(name not in arrays for name in wanted):
        raise DataError(
            f"{path}: expected the arrays {' and '.join(wanted)}, found {', '.join(arrays)}."
        )
    labels = _words(path, arrays["y"]) if labelled else None
    return _checked(path, arrays["x"], labels, ())


def _words(path: Path, labels: Any) -> tuple[str, ...]:
    if labels.ndim != 1 or labels.dtype.kind not in "iuUSb":
        raise DataError(
            f"{path}: expected y to hold one label for each example, whole numbers or words, found "
            f"{labels.dtype} of shape {labels.shape}."
        )
    return tuple(str(value) for value in labels.tolist())


def _from_csv(path: Path, label: str | None, labelled: bool) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    names: list[str] = []
    if rows and not all(_is_number(cell) for cell in rows[0][:-1]):
        names, *rows = rows
    width = len(names or (rows[0] if rows else []))
    for number, row in enumerate(rows, start=2 if names else 1):
        if len(row) != width:
            raise DataError(f"{path}, row {number}: expected {width} cells, found {len(row)}.")
    place = _label_place(path, names, label, labelled, width)
    labels = None if place is None or not labelled else tuple(row[place] for row in rows)
    kept = [column for column in range(width) if column != place]
    features = [
        [_number(path, row[c], n, names[c] if names else str(c)) for c in kept]
        for n, row in enumerate(rows, start=2 if names else 1)
    ]
    table = np.asarray(features, dtype=np.float64).reshape(len(rows), len(kept))
    return _checked(path, table, labels, tuple(names[c] for c in kept) if names else ())


def _label_place(
    path: Path, names: list[str], label: str | None, labelled: bool, width: int
) -> int | None:
    if label is not None and label in names:
        return names.index(label)
    if label is not None and labelled:
        found = ", ".join(names) or "no header"
        raise DataError(f"{path}: expected a column {label!r} of labels, found {found}.")
    return width - 1 if labelled else None


def _checked(
    path: Path, inputs: Any, labels: tuple[str, ...] | None, names: tuple[str, ...]
) -> Table:
    if inputs.dtype.kind not in "fiub" or not inputs.ndim:
        raise DataError(f"{path}: expected x to hold numbers, found {inputs.dtype}.")
    if not len(inputs):
        raise DataError(f"{path}: expected at least one example, found none.")
    if labels is not None and len(labels) != len(inputs):
        raise DataError(
            f"{path}: expected a label for each of the {len(inputs)} examples, found {len(labels)}."
        )
    values = torch.from_numpy(np.ascontiguousarray(inputs, dtype=np.float32))
    if not bool(torch.isfinite(values).all()):
        broken = (~torch.isfinite(values)).flatten(1).any(dim=1).nonzero().flatten().tolist()
        raise DataError(
            f"{path}: expected finite numbers, found NaN or infinity in {len(broken)} examples "
            f"(first: example {broken[0]}, counted from 0)."
        )
    return Table(values, labels, names)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(path: Path, cell: str, row: int, column: str) -> float:
    try:
        return float(cell)
    except ValueError as error:
        raise DataError(
            f"{path}, row {row}, column {column}: expected a number, found {cell!r}. If this is "
            "the column of labels, name it by `--label`."
        ) from error
