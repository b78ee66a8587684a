"""Examples for a model in use: CSV or Parquet with a column of labels, npz with the arrays `x` and
`y`, a data set that `datasets` saved, or a folder of pictures."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.live.canaries import TaskRecord
from uclearn.live.update import known_task
from uclearn.tasks.own.arrow import cells_of, is_saved
from uclearn.tasks.own.examples import in_order
from uclearn.tasks.own.pictures import loose_pictures, read_pictures
from uclearn.tasks.own.text import csv_rows, is_number


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


def read_table(
    path: Path, label: str | None, *, labelled: bool, shape: Sequence[int] | None = None
) -> Table:
    """The examples at a path.

    If there must be labels (`labelled`), they are in the table's column `label` (None: the last
    one), or are the names of the folders that pictures lie in; if not, they are left out. `shape`:
    of one example as the model takes it, to which pictures are brought; None: as they suggest.
    """
    wanted = "a .csv, .parquet or .npz file or a folder of pictures"
    if not path.exists():
        raise DataError(f"{path}: expected {wanted}, found nothing.")
    if path.is_dir() and not is_saved(path):
        return _from_pictures(path, labelled, shape)
    if path.is_dir() or path.suffix == ".parquet":
        names, rows = cells_of(path)
        return _from_rows(path, names, rows, 0, label, labelled)
    if path.suffix == ".npz":
        return _from_npz(path, labelled)
    if path.suffix == ".csv":
        return _from_csv(path, label, labelled)
    raise DataError(f"{path}: expected {wanted}, found {path.suffix or 'no ending'}.")


def as_update(
    table: Table,
    tasks: Mapping[str, TaskRecord],
    task: str | None,
    *,
    heads: bool,
    add_classes: bool = False,
) -> dict[str, Any]:
    """Arguments of `Learner.learn` that a table comes to: the data with their labels numbered, and
    how many classes there are."""
    assert table.labels is not None
    if task is not None or (tasks and not heads):
        known = known_task(tasks, task or list(tasks)[-1]).labels
        fresh = set(table.labels) - set(known) if add_classes else set()
        labels = (*known, *in_order(fresh))
        classes = len(labels) if fresh else None
    else:
        labels = in_order(table.labels)
        classes = max(len(labels), 2) if heads else None
    data = (table.inputs, table.numbered(labels))
    return {"data": data, "labels": labels, "classes": classes}


def _from_pictures(path: Path, labelled: bool, shape: Sequence[int] | None) -> Table:
    if shape is not None and (len(shape) != 3 or shape[1] != shape[2]):
        raise DataError(
            f"{path}: holds pictures, but this model takes examples of shape {tuple(shape)}. Give "
            "it data like those that it learned from."
        )
    size = None if shape is None else int(shape[1])
    channels = None if shape is None else int(shape[0])
    if labelled:
        read = read_pictures(path, size, channels == 1, skip_broken=False)
        if read.tasks is not None:
            raise DataError(
                f"{path}: has a folder for each task ({', '.join(read.task_names[:3])}, ...), and "
                "an update learns one. Name one of them: PATH/TASK."
            )
        pixels, labels = read.inputs, [read.classes[c] for c in read.targets.tolist()]
    else:
        pixels, labels = loose_pictures(path, size, channels == 1), []
    if channels == 3 and pixels.shape[1] == 1:
        pixels = pixels.expand(-1, 3, -1, -1)  # grey ones for a model of coloured ones
    # a scale that no data decide, so that it is the same for every update
    return Table(pixels.float() / 64 - 2, tuple(labels) if labelled else None)


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
    with csv_rows(path) as found:
        rows = [[cell.strip() for cell in row] for row in found]
    names: list[str] = []
    if rows and not all(is_number(cell) for cell in rows[0][:-1]):
        names, *rows = rows
    return _from_rows(path, names, rows, 2 if names else 1, label, labelled)


def _from_rows(
    path: Path,
    names: list[str],
    rows: list[list[str]],
    begin: int,
    label: str | None,
    labelled: bool,
) -> Table:
    """Cells as text; `begin` is the number of the first row, `names` may be empty."""
    width = len(names or (rows[0] if rows else []))
    for number, row in enumerate(rows, start=begin):
        if len(row) != width:
            raise DataError(f"{path}, row {number}: expected {width} cells, found {len(row)}.")
    place = _label_place(path, names, label, labelled, width)
    labels = None if place is None or not labelled else tuple(row[place] for row in rows)
    kept = [column for column in range(width) if column != place]
    features = [
        [_number(path, row[c], n, names[c] if names else str(c)) for c in kept]
        for n, row in enumerate(rows, start=begin)
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


def _number(path: Path, cell: str, row: int, column: str) -> float:
    try:
        return float(cell)
    except ValueError as error:
        raise DataError(
            f"{path}, row {row}, column {column}: expected a number, found {cell!r}. If this is "
            "the column of labels, name it by `--label`."
        ) from error
