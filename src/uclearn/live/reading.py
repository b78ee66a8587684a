"""Examples for a model in use, from whatever `uclearn compare` takes: CSV or Parquet with a column
of labels, npz with the arrays `x` and `y`, a data set that `datasets` saved, a folder of pictures.

The first table decides how columns become features (`uclearn.tasks.own.encoding`); later ones are
read the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.live.table import Knows, Table
from uclearn.tasks.own.arrow import arrow_columns
from uclearn.tasks.own.columns import Column, Roles, columns_for
from uclearn.tasks.own.encoding import Encoding
from uclearn.tasks.own.files import kind_of, refuse_unfitting, roles_of
from uclearn.tasks.own.npz import arrays_of
from uclearn.tasks.own.pictures import loose_pictures, read_pictures
from uclearn.tasks.own.source import Asked
from uclearn.tasks.own.text import Read, csv_columns


def read_table(asked: Asked, knows: Knows, *, labelled: bool, only: str | None = None) -> Table:
    """The examples at a path, as the model takes them.

    Args:
        asked: where they are, and what is said about columns and pictures.
        knows: what the model was taught from before.
        labelled: whether there must be labels; if not, they are left out.
        only: of data with several tasks, the one that is wanted.
    """
    kind, path = kind_of(asked.path), Path(asked.path)
    refuse_unfitting(asked, kind)
    if asked.target is not None and kind == "npz":
        raise SettingError("`--target` names a column of a table; a .npz is learned by its labels.")
    if kind == "pictures":
        return _from_pictures(path if only is None else path / only, asked, knows, labelled)
    if kind == "npz":
        return _from_npz(path, labelled, only)
    if kind == "csv":
        return _from_columns(
            csv_columns(path, _chooser(asked, knows, labelled)), asked, knows, labelled, only
        )
    flat = knows.shape is not None and len(knows.shape) == 1
    size, grey = (None, False) if flat or kind != "datasets" else _side(path, asked, knows)
    read, pixels = arrow_columns(path, _chooser(asked, knows, labelled), size, grey)
    if pixels is not None and flat:
        _side(path, asked, knows)  # says what is wrong
    return _from_columns(read, asked, knows, labelled, only, pixels)


# -- tables ----------------------------------------------------------------------------------


def _roles(asked: Asked, knows: Knows, names: Sequence[str], labelled: bool) -> Roles:
    """Which columns are no features."""
    said = roles_of(asked)
    if knows.encoding is not None:
        return knows.encoding.roles_in(names, said)
    if labelled:
        return said.found(names, asked.path)
    label = said.label if said.label in names else None  # to be left out, if it is there
    return Roles(label=label, drop=said.drop)


def _chooser(asked: Asked, knows: Knows, labelled: bool) -> Any:
    def choose(names: list[str]) -> dict[str, Column]:
        roles = _roles(asked, knows, names, labelled)
        if knows.encoding is None:
            return columns_for(names, roles)
        encoding = replace(knows.encoding, roles=roles)
        return encoding.columns(names, asked.path, labelled=labelled)

    return choose


def _from_columns(
    read: Read,
    asked: Asked,
    knows: Knows,
    labelled: bool,
    only: str | None,
    pixels: Any = None,
) -> Table:
    def at(place: int) -> str:
        return f"{asked.path}, row {read.first_row + place}"

    roles = _roles(asked, knows, read.names, labelled)
    if not len(next(iter(read.columns.values()), Column("")).values()) and pixels is None:
        raise DataError(f"{asked.path}: expected at least one row of examples, found none.")
    labels = targets = None
    if labelled and roles.target is not None:
        targets = _numbers(asked.path, read.columns[roles.target], at)
    elif labelled:
        assert roles.label is not None
        labels = tuple(read.columns[roles.label].words(at))
    encoding: Encoding | None = None
    notes: list[str] = []
    if pixels is not None:
        inputs = _as_pixels(torch.from_numpy(pixels), knows)
    else:
        encoding = knows.encoding or Encoding.learned(asked.path, read.columns, roles)
        if knows.shape is not None and knows.encoding is None:
            _refuse_words(asked.path, encoding)
        inputs, notes = encoding.encoded(read.columns)
        if left := encoding.left_out(read.names) if knows.encoding is not None else []:
            notes.append(f"Left out, as the model does not know them: columns {', '.join(left)}.")
    table = Table(inputs, labels, encoding, tuple(notes), targets)
    if not labelled:
        return table
    tasks, parts, groups = (
        read.columns[n].words(at) if n in read.columns else None
        for n in (roles.task, roles.part, roles.group)
    )
    table = replace(table, groups=None if groups is None else tuple(groups))
    return _part_of(table, asked.path, tasks, parts, only=only)


def _numbers(where: str, column: Column, at: Any) -> Tensor:
    """(rows, 1): what is to be predicted, of which nothing may be missing."""
    values = column.values()
    missing = np.isnan(values).nonzero()[0] if column.is_number else [0]
    if len(missing):
        raise DataError(
            f"{at(int(missing[0]))}, column {column.name}: expected a number to be predicted, "
            f"found {'an empty cell' if column.is_number else 'words'}. Leave such rows out, or "
            "say `--label` for classes."
        )
    return torch.from_numpy(values.astype(np.float32)).unsqueeze(1)


def _refuse_words(where: str, encoding: Encoding) -> None:
    for feature in encoding.features:
        if feature.categories is not None or feature.gaps:
            found = "words" if feature.categories is not None else "empty cells"
            raise DataError(
                f"{where}, column {feature.name}: expected numbers alone, as those that this model "
                f"was taught before, found {found}. Fill or remove them, or leave the column out."
            )


def _part_of(
    table: Table,
    where: str,
    tasks: Sequence[str] | None,
    parts: Sequence[str] | None,
    *,
    only: str | None,
) -> Table:
    """The rows of one task, and of the training part."""
    rows = [True] * len(table.inputs)
    notes: list[str] = []
    if tasks is not None:
        known = list(dict.fromkeys(tasks))
        if only is None and len(known) > 1:
            raise DataError(
                f"{where}: holds {len(known)} tasks ({', '.join(known[:3])}, ...), and an update "
                f"learns one. Say which: `--only {known[0]}`."
            )
        if only is not None and only not in known:
            raise DataError(f"{where}: there is no task {only!r}, but {', '.join(known[:5])}.")
        rows = [task == (only or known[0]) for task in tasks]
    elif only is not None:
        raise DataError(f"{where}: does not say which task a row is of. Leave out `--only`.")
    if parts is not None:
        training = [part.lower() in ("train", "training") for part in parts]
        if count := sum(row and not train for row, train in zip(rows, training, strict=True)):
            notes.append(f"{count} rows that are not for training are left out.")
        rows = [row and train for row, train in zip(rows, training, strict=True)]
    if not any(rows):
        raise DataError(f"{where}: no row is left to learn from.")
    return table.rows(torch.tensor(rows), *notes)


def _from_npz(path: Path, labelled: bool, only: str | None) -> Table:
    arrays = arrays_of(path)
    wanted = ("x", "y") if labelled else ("x",)
    if any(name not in arrays for name in wanted):
        raise DataError(
            f"{path}: expected the arrays {' and '.join(wanted)}, found {', '.join(arrays)}."
        )
    labels = _words(path, "y", arrays["y"]) if labelled else None
    table = _checked(path, arrays["x"], labels)
    if not labelled:
        return table
    tasks, parts, groups = (
        _words(path, n, arrays[n]) if n in arrays else None for n in ("task", "split", "group")
    )
    return _part_of(replace(table, groups=groups), str(path), tasks, parts, only=only)


def _words(path: Path, name: str, words: Any) -> tuple[str, ...]:
    if words.ndim != 1 or words.dtype.kind not in "iuUSb":
        raise DataError(
            f"{path}: expected {name} to hold one label for each example, whole numbers or words, "
            f"found {words.dtype} of shape {words.shape}."
        )
    return tuple(str(value) for value in words.tolist())


def _checked(path: Path, inputs: Any, labels: tuple[str, ...] | None) -> Table:
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
            f"(first: example {broken[0]}, counted from 0). In CSV and Parquet, empty cells are "
            "filled for you."
        )
    return Table(values, labels)


# -- pictures --------------------------------------------------------------------------------


def _from_pictures(path: Path, asked: Asked, knows: Knows, labelled: bool) -> Table:
    size, grey = _side(path, asked, knows)
    if not labelled:
        return Table(_as_pixels(loose_pictures(path, size, grey), knows), None)
    read = read_pictures(path, size, grey, asked.skip_broken)
    if read.tasks is not None:
        raise DataError(
            f"{path}: has a folder for each task ({', '.join(read.task_names[:3])}, ...), and an "
            f"update learns one. Say which: `--only {read.task_names[0]}`."
        )
    left = ", ".join(read.skipped[:5])
    notes = (f"{len(read.skipped)} pictures cannot be read, left out: {left}",) if left else ()
    labels = tuple(read.classes[c] for c in read.targets.tolist())
    return Table(_as_pixels(read.inputs, knows), labels, notes=notes)


def _side(path: Path, asked: Asked, knows: Knows) -> tuple[int | None, bool]:
    """Pixels of a side and whether in grey: as the model takes them, else as asked."""
    shape = knows.shape
    if shape is None:
        return asked.size, asked.grey
    if len(shape) != 3 or shape[1] != shape[2]:
        raise DataError(
            f"{path}: holds pictures, but this model takes examples of shape {tuple(shape)}. Give "
            "it data like those that it learned from."
        )
    return int(shape[1]), shape[0] == 1


def _as_pixels(pixels: Tensor, knows: Knows) -> Tensor:
    """At a scale that no data decide, so that it is the same for every update."""
    if knows.shape is not None and knows.shape[0] == 3 and pixels.shape[1] == 1:
        pixels = pixels.expand(-1, 3, -1, -1)  # grey ones for a model of coloured ones
    return pixels.float() / 64 - 2
