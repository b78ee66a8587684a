"""Columns of a table: numbers, categories and missing values become features.

A column of numbers is a feature; its missing cells stay NaN until the scale of the first task is
known, and a second feature says where they were. A column of words has a feature for each category.
A column with both is refused, since nobody can know which was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.own.examples import (
    Examples,
    in_order,
    part_numbers,
    task_names,
)
from uclearn.tasks.own.npz import check_finite

MISSING = ("", "na", "n/a", "nan", "null", "none", "?")
MOST_CATEGORIES = 200
LABELS = ("label", "class", "y")
"""Names that a column of labels has unless another is given; else it is the last one."""


@dataclass(frozen=True)
class Roles:
    """Which columns are no features."""

    label: str | None = None
    target: str | None = None
    """A column of numbers to be predicted, instead of labels."""
    task: str | None = None
    part: str | None = None
    group: str | None = None
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Columns of numbers that are names."""

    def found(self, columns: Sequence[str], where: str) -> Roles:
        """The same with defaults filled in; columns that are named must be there."""
        twice = [name for name in columns if list(columns).count(name) > 1]
        if twice:
            raise DataError(f"{where}: has two columns of one name, {twice[0]!r}. Rename one.")
        named = (self.label, self.target, self.task, self.part, self.group)
        for name in (*named, *self.drop, *self.categories):
            if name is not None and name not in columns:
                raise DataError(
                    f"{where}: there is no column {name!r}. Its columns are {', '.join(columns)}."
                )
        task, part, group = (
            chosen or (name if name in columns else None)
            for name, chosen in (("task", self.task), ("split", self.part), ("group", self.group))
        )
        taken = {task, part, group, *self.drop}
        label = None
        if self.target is None:
            left = [name for name in columns if name not in taken]
            known = [name for name in LABELS if name in left]
            label = self.label or (known[0] if known else left[-1] if left else None)
        return Roles(label, self.target, task, part, group, self.drop, self.categories)

    def special(self) -> set[str | None]:
        """All columns that are no features."""
        return {self.label, self.target, self.task, self.part, self.group, *self.drop}

    def words(self) -> set[str | None]:
        """Columns that are kept as words."""
        return {self.label, self.task, self.part, self.group}


@dataclass
class Column:
    """A column while it is read, piece by piece."""

    name: str
    as_words: bool = False
    """Whatever stands in it is a word."""
    is_number: bool | None = None
    """None: nothing but missing cells so far."""
    pieces: list[NDArray[np.float32]] = field(default_factory=list)
    """Numbers, or codes of words; NaN: missing."""
    codes: dict[str, int] = field(default_factory=dict)
    taught: bool = False
    """A model was taught what it holds: nothing can be chosen any more."""
    _known: dict[str, float] = field(default_factory=dict)
    """By what stood in cells, the code of the word."""

    def add(self, cells: Sequence[str], where: Callable[[int], str]) -> None:
        """More cells; `where(i)` names the i-th of them in an error."""
        if self.as_words:
            self.pieces.append(self._coded(cells))
            return
        if self.is_number is not False:
            try:  # the quick way: all of them are numbers
                values = np.array(cells, dtype=np.float64)
                self._put(values, cells, where)
                return
            except ValueError:
                pass
        cells = [cell.strip() for cell in cells]
        numbers = [_number(cell) for cell in cells]
        for place, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
            if cell.lower() in MISSING:
                continue
            if self.is_number is None:
                self.is_number = number is not None
            if self.is_number != (number is not None):
                otherwise = (
                    f", or if these are names say `--categories {self.name}`; `--drop "
                    f"{self.name}` leaves the column out"
                )
                raise DataError(
                    f"{where(place)}, column {self.name}: expected "
                    f"{'a number' if self.is_number else 'a word'} as everywhere before, found "
                    f"{cell!r}. Correct it, or leave the cell empty"
                    f"{'' if self.taught else otherwise}."
                )
        if self.is_number:
            values = np.array([np.nan if n is None else n for n in numbers], dtype=np.float64)
            self._put(values, cells, where)
        else:
            self.pieces.append(self._coded(cells))

    def add_numbers(self, values: NDArray[np.float64], where: Callable[[int], str]) -> None:
        """More cells that are numbers already; NaN: missing."""
        self._put(values, None, where)

    def values(self) -> NDArray[np.float32]:
        """All cells."""
        return np.concatenate(self.pieces) if self.pieces else np.zeros(0, np.float32)

    def places(self, names: Sequence[str], at: Callable[[int], str]) -> Tensor:
        """(cells,) the place of each word among `names`; none may be missing, which `at` names in
        an error."""
        values = self.values()
        if (missing := np.isnan(values)).any():
            raise DataError(
                f"{at(int(missing.argmax()))}, column {self.name}: expected a word or whole "
                "number, found an empty cell. Fill it or remove the row."
            )
        order = {name: place for place, name in enumerate(names)}
        table = np.array([order[word] for word in self.codes], dtype=np.int64)
        return torch.from_numpy(table[values.astype(np.int64)])

    def words(self, at: Callable[[int], str]) -> list[str]:
        """All cells; `at` as for `places`."""
        known = list(self.codes)
        return [known[place] for place in self.places(known, at).tolist()]

    def add_codes(self, words: Sequence[str], codes: NDArray[np.int64]) -> None:
        """More cells: the place of each among `words`."""
        self.pieces.append(self._coded(words)[codes])

    def _put(
        self, values: NDArray[np.float64], cells: Sequence[str] | None, where: Callable[[int], str]
    ) -> None:
        endless = np.isinf(values) | (np.abs(values) > np.finfo(np.float32).max)
        if endless.any():
            place = int(endless.argmax())
            raise DataError(
                f"{where(place)}, column {self.name}: expected a number that 32 bits can hold, "
                f"found {values[place] if cells is None else cells[place]!r}. Correct it or leave "
                "the cell empty."
            )
        if self.is_number is None and not np.isnan(values).all():
            self.is_number = True
        self.pieces.append(values.astype(np.float32))

    def _coded(self, cells: Sequence[str]) -> NDArray[np.float32]:
        for cell in dict.fromkeys(cells):
            if cell not in self._known:
                word = cell.strip()
                missing = word.lower() in MISSING
                code = np.nan if missing else self.codes.setdefault(word, len(self.codes))
                self._known[cell] = code
        return np.array([self._known[cell] for cell in cells], dtype=np.float32)


def columns_for(names: Iterable[str], roles: Roles) -> dict[str, Column]:
    """A column to be filled for each name that is of use."""
    words = roles.words() | set(roles.categories)
    return {name: Column(name, name in words) for name in names if name not in roles.drop}


def as_examples(
    where: str, columns: dict[str, Column], roles: Roles, first_row: int = 0
) -> Examples:
    """Columns as examples."""

    def at(place: int) -> str:
        return f"{where}, row {first_row + place}"

    features = [column for name, column in columns.items() if name not in roles.special()]
    rows = len(next(iter(columns.values())).values()) if columns else 0
    if not rows:
        raise DataError(f"{where}: expected at least one row of examples, found none.")
    if not features:
        raise DataError(
            f"{where}: expected at least one column of features beside {roles.label!r}, found none."
        )
    parts, titles, scaled = [], [], []
    for column in features:
        block, names = _features(where, column)
        parts.append(block)
        titles += names
        scaled += [bool(column.is_number) and name == column.name for name in names]
    tasks = None
    names_of_tasks: tuple[str, ...] = ()
    if roles.task is not None:
        column = columns[roles.task]
        names_of_tasks = task_names(list(column.codes))
        tasks = column.places(names_of_tasks, at)
    split = group = None
    if roles.part is not None:
        split = part_numbers(columns[roles.part].words(at), at)
    if roles.group is not None:
        group = columns[roles.group].places(list(columns[roles.group].codes), at)
    if roles.target is not None:
        column = columns[roles.target]
        if not column.is_number:
            raise DataError(
                f"{where}, column {roles.target}: expected numbers to be predicted, found words. "
                f"Say `--label {roles.target}` to tell classes apart."
            )
        targets = check_finite(torch.from_numpy(column.values()), at)
        classes: tuple[str, ...] = ()
    else:
        assert roles.label is not None
        classes = in_order(columns[roles.label].codes)
        targets = columns[roles.label].places(classes, at)
    return Examples(
        inputs=torch.from_numpy(np.concatenate(parts, axis=1)),
        targets=targets,
        classes=classes,
        tasks=tasks,
        task_names=names_of_tasks,
        parts=split,
        groups=group,
        scaled=torch.tensor(scaled),
        columns=tuple(titles),
        first_row=first_row,
    )


def _features(where: str, column: Column) -> tuple[NDArray[np.float32], list[str]]:
    """(rows, features) and their names."""
    values = column.values()
    if column.is_number or (column.is_number is None and not column.as_words):
        missing = np.isnan(values)
        if not missing.any():
            return values[:, None], [column.name]
        gaps = missing.astype(np.float32)
        return np.stack([values, gaps], axis=1), [column.name, f"{column.name} is missing"]
    names = category_names(where, column)
    block = np.zeros((len(values), len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        block[:, place] = values == column.codes[name]
    return block, [f"{column.name}={name}" for name in names]


def category_names(where: str, column: Column) -> tuple[str, ...]:
    """The different words of a column, in order, if they are few enough to be categories."""
    if len(column.codes) > MOST_CATEGORIES:
        raise DataError(
            f"{where}, column {column.name}: has {len(column.codes)} different words, more than "
            f"the {MOST_CATEGORIES} that can be categories. It looks like text or an identifier: "
            f"leave it out by `--drop {column.name}`."
        )
    return in_order(column.codes)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
