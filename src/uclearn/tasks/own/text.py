"""CSV files, read piece by piece, so that memory holds the numbers and never the text."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from uclearn.errors import DataError
from uclearn.tasks.own.columns import LABELS, Column, Roles, as_examples, columns_for
from uclearn.tasks.own.examples import PER_ROW, Examples, check_memory

_PIECE = 20_000  # rows
_BYTES = 3 * 4  # per cell: the numbers in pieces, joined, and as features


Choose = Callable[[list[str]], dict[str, Column]]
"""Given the names of all columns: those that are of use, to be filled."""


def read_csv(path: Path, roles: Roles) -> Examples:
    """The rows of a CSV file; the first one names the columns, unless it holds nothing but numbers
    (and then they are called 0, 1, ..., and the last one is the label)."""
    where = str(path)
    read = csv_columns(path, lambda names: columns_for(names, roles.found(names, where)))
    return as_examples(where, read.columns, roles.found(read.names, where), read.first_row)


class Read(NamedTuple):
    """What stood in a table."""

    names: list[str]
    """Of all columns."""
    columns: dict[str, Column]
    """Those of use."""
    first_row: int
    """Its number in the file."""


def csv_columns(path: Path, choose: Choose) -> Read:
    """The columns of a CSV file that are chosen."""
    with _csv_rows(path) as rows:
        return _read(path, rows, choose)


@contextmanager
def _csv_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """The rows of a CSV file that are not empty; what is no CSV is refused."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield (row for row in csv.reader(file, delimiter=_delimiter(path)) if row)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected text in UTF-8, found other bytes ({error.reason}). Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise DataError(f"{path}: expected a CSV file ({error}).") from error


def _read(path: Path, rows: Iterator[list[str]], choose: Choose) -> Read:
    first = [cell.strip() for cell in next(rows, [])]
    if not first:
        raise DataError(f"{path}: expected rows of examples, found an empty file.")
    headed = not all(_is_number(cell) for cell in first[:-1]) or first[-1].lower() in LABELS
    names = first if headed else [str(place) for place in range(len(first))]
    width, begin = len(names), 2 if headed else 1
    columns = choose(names)
    rows = rows if headed else chain([first], rows)
    while piece := list(islice(rows, _PIECE)):
        if begin <= 2:
            _announce(path, piece, width)
        _add(path, piece, names, columns, begin)
        begin += len(piece)
    return Read(names, columns, 2 if headed else 1)


def _add(
    path: Path, piece: list[list[str]], names: list[str], columns: dict[str, Column], begin: int
) -> None:
    lengths = list(map(len, piece))
    if lengths.count(len(names)) < len(piece):
        place = next(k for k, length in enumerate(lengths) if length != len(names))
        raise DataError(
            f"{path}, row {begin + place}: expected {len(names)} cells, found {lengths[place]}. A "
            "comma within a cell needs quotes around the cell."
        )
    where = partial(_row, path, begin)
    for name, cells in zip(names, zip(*piece, strict=True), strict=True):
        if name in columns:
            columns[name].add(cells, where)


def _row(path: Path, begin: int, place: int) -> str:
    return f"{path}, row {begin + place}"


def _announce(path: Path, piece: list[list[str]], width: int) -> None:
    """How much memory all rows need, by the length of the first ones."""
    length = sum(len(cell) + 1 for row in piece for cell in row) / len(piece)
    rows = path.stat().st_size / max(length, 1)
    check_memory(path, rows * (width * _BYTES + PER_ROW), "Keep fewer rows, or `--drop` columns.")


def _delimiter(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        line = file.readline(100_000)
    return max(",;\t", key=line.count)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
