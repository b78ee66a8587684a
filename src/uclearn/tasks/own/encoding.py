"""How columns of a table became features the first time, kept so that every later table of the same
columns becomes the same: for a model in use, which is taught and asked file by file.

Numbers are features; where cells were empty, the mean takes their place and a second feature says
so. Words have a feature for each category that was there. What was not there the first time cannot
be learned from any more: it is taken for nothing, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.errors import DataError, SettingError
from uclearn.tasks.own.columns import Column, Roles, category_names
from uclearn.tasks.own.examples import in_order


@dataclass(frozen=True)
class Feature:
    """A column that a model learns from."""

    name: str
    categories: tuple[str, ...] | None = None
    """None: it holds numbers."""
    mean: float = 0.0
    """Of the numbers the first time; stands for those that are missing."""
    gaps: bool = False
    """Whether numbers were missing the first time, so that a second feature says where."""

    def titles(self) -> list[str]:
        """Of the features that it becomes."""
        if self.categories is not None:
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name, f"{self.name} is missing"] if self.gaps else [self.name]


@dataclass(frozen=True)
class Encoding:
    """All columns of a table, as they were the first time."""

    features: tuple[Feature, ...]
    roles: Roles
    """Which columns are no features, defaults filled in."""
    target: tuple[float, float] | None = None
    """Mean and spread of the numbers to be predicted the first time; None: there are labels."""

    @classmethod
    def learned(cls, where: str, columns: Mapping[str, Column], roles: Roles) -> Encoding:
        """From the first table."""
        own = [column for name, column in columns.items() if name not in roles.special()]
        if not own:
            raise DataError(
                f"{where}: expected at least one column of features beside "
                f"{roles.target or roles.label!r}, found none."
            )
        features = tuple(_feature(where, column) for column in own)
        if roles.target is None:
            return cls(features, roles)
        numbers = columns[roles.target].values().astype(np.float64)
        spread = float(np.nanstd(numbers)) if len(numbers) else 0.0
        return cls(features, roles, (float(np.nanmean(numbers)), spread or 1.0))

    def roles_in(self, names: Sequence[str], said: Roles) -> Roles:
        """Which columns of a later table are no features: as said, as before, or as usual."""
        if (said.label and self.roles.target) or (said.target and self.roles.target is None):
            known = f"numbers ({self.roles.target})" if self.roles.target else "classes"
            raise SettingError(
                f"This model was taught to predict {known}, which cannot be changed. Say "
                f"`{'--target' if self.roles.target else '--label'}`, or choose another folder."
            )
        free = [name for name in names if name not in {feature.name for feature in self.features}]

        def found(chosen: str | None, before: str | None, usual: str) -> str | None:
            return chosen or before or (usual if usual in free else None)

        return replace(
            self.roles,
            label=said.label or self.roles.label,
            target=said.target or self.roles.target,
            task=found(said.task, self.roles.task, "task"),
            part=found(said.part, self.roles.part, "split"),
            group=found(said.group, self.roles.group, "group"),
        )

    def columns(self, names: Sequence[str], where: str, *, labelled: bool) -> dict[str, Column]:
        """Columns to be filled from a later table; those that it lacks are named."""
        roles = self.roles
        needed = [feature.name for feature in self.features]
        answers = [name for name in (roles.label, roles.target) if labelled and name is not None]
        needed += answers
        lacking = [name for name in needed if name not in names]
        if lacking:
            raise DataError(
                f"{where}: there is no column {lacking[0]!r}, of which this model knows. Its "
                f"columns are {', '.join(names)}."
            )
        found = {
            feature.name: Column(
                feature.name,
                as_words=feature.categories is not None,
                is_number=None if feature.categories is not None else True,
                taught=True,
            )
            for feature in self.features
        }
        others = [name for name in roles.words() if name is not None and name in names]
        found |= {name: Column(name, as_words=True) for name in others}
        if labelled and roles.target is not None:
            found[roles.target] = Column(roles.target, is_number=True, taught=True)
        return found

    def encoded(self, columns: Mapping[str, Column]) -> tuple[Tensor, list[str]]:
        """(rows, features), and what there is to say about them."""
        blocks: list[NDArray[np.float32]] = []
        notes: list[str] = []
        for feature in self.features:
            block, note = _encoded(feature, columns[feature.name])
            blocks.append(block)
            notes += note
        return torch.from_numpy(np.concatenate(blocks, axis=1)), notes

    def scaled(self) -> Tensor:
        """(features,) bool: measured, and so to be brought to a common scale."""
        return torch.tensor(
            [
                feature.categories is None and title == feature.name
                for feature in self.features
                for title in feature.titles()
            ]
        )

    def left_out(self, names: Iterable[str]) -> list[str]:
        """Columns that are neither features nor anything else that is known."""
        known = {feature.name for feature in self.features} | self.roles.special()
        return [name for name in names if name not in known]

    def document(self) -> dict[str, Any]:
        """In the types of JSON."""
        return {
            "features": [
                {**asdict(f), "categories": None if f.categories is None else list(f.categories)}
                for f in self.features
            ],
            "roles": {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in asdict(self.roles).items()
            },
            "target": None if self.target is None else list(self.target),
        }

    @classmethod
    def from_document(cls, saved: Mapping[str, Any]) -> Encoding:
        """What `document` described."""

        def plain(entry: Mapping[str, Any]) -> dict[str, Any]:
            return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}

        features = tuple(Feature(**plain(feature)) for feature in saved["features"])
        target = saved.get("target")  # newer than encodings that exist
        return cls(features, Roles(**plain(saved["roles"])), None if target is None else (*target,))


def _feature(where: str, column: Column) -> Feature:
    if column.as_words or column.is_number is False:
        return Feature(column.name, category_names(where, column))
    values = column.values()
    there = values[~np.isnan(values)].astype(np.float64)
    mean = float(there.mean()) if len(there) else 0.0
    return Feature(column.name, None, mean, gaps=len(there) < len(values))


def _encoded(feature: Feature, column: Column) -> tuple[NDArray[np.float32], list[str]]:
    values = column.values()
    missing = np.isnan(values)
    notes: list[str] = []
    if feature.categories is None:
        filled = np.where(missing, np.float32(feature.mean), values)
        if feature.gaps:
            return np.stack([filled, missing.astype(np.float32)], axis=1), notes
        if missing.any():
            notes.append(
                f"Column {feature.name}: empty in {_rows(missing)}; it was in none when the model "
                "was made, so that the mean stands there, unmarked."
            )
        return filled[:, None], notes
    unknown = [word for word in column.codes if word not in feature.categories]
    if unknown:
        where = np.isin(values, [column.codes[word] for word in unknown])
        words = ", ".join(in_order(unknown)[:5]) + (", ..." if len(unknown) > 5 else "")
        notes.append(
            f"Column {feature.name}: in {_rows(where)} words that the model does not know "
            f"({words}); it takes them for none of those that it knows."
        )
    block = np.zeros((len(values), len(feature.categories)), dtype=np.float32)
    for place, name in enumerate(feature.categories):
        block[:, place] = values == column.codes.get(name, -1)
    return block, notes


def _rows(where: NDArray[np.bool_]) -> str:
    count = int(where.sum())
    return "1 row" if count == 1 else f"{count} rows"
