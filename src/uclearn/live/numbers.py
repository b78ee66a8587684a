"""An update by numbers that are to be predicted: there is no accuracy that a gate could compare, so
what it is worth is measured on rows that are kept out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.live.canaries import hashes_of_words
from uclearn.live.table import Table, as_update
from uclearn.live.update import Update
from uclearn.tasks.data import generator

if TYPE_CHECKING:
    from uclearn.live.learner import Learner


def learn_numbers(
    learner: Learner, table: Table, name: str, task: str | None, share: float
) -> tuple[Update, dict[str, Any]]:
    """Learn from all but a share of the rows (from 1 on: so many), of groups all or none; how far
    off the model is on those, in the units of the column, and how far their usual mean would be."""
    held = _held_out(table, share, learner.plan.seed, name)
    request = as_update(table.rows(~held), learner.tasks, task, heads=False)
    update = learner.learn(name=name, task=task, **request)
    rest = table.rows(held)
    assert rest.targets is not None
    mean, _ = _scale(table)
    said = in_units(learner.predict(rest.inputs).outputs, table)
    told = {
        "held_out": len(rest.inputs),
        "error": _root_mean_square(said - rest.targets),
        "error_of_mean": _root_mean_square(mean - rest.targets),
    }
    return update, told


def in_units(outputs: Tensor, table: Table) -> Tensor:
    """What a model answers, in the units of the column that it was taught."""
    mean, spread = _scale(table)
    return outputs * spread + mean


def _held_out(table: Table, share: float, seed: int, name: str) -> Tensor:
    """(rows,) bool"""
    rows = len(table.inputs)
    count = max(1, round(share * rows) if share < 1 else int(share))
    groups = torch.arange(rows) if table.groups is None else hashes_of_words(table.groups)
    held = torch.zeros(rows, dtype=torch.bool)
    for row in torch.randperm(rows, generator=generator(seed, f"held out of {name}")).tolist():
        if int(held.sum()) >= count:
            break
        held |= groups == groups[row]
    if bool(held.all()):
        raise DataError(
            f"`data` must hold enough rows, and groups of them, to keep {count} out and learn from "
            f"the rest, got {rows}. Give more, or a smaller `--canary`."
        )
    return held


def _scale(table: Table) -> tuple[float, float]:
    assert table.encoding is not None
    assert table.encoding.target is not None
    return table.encoding.target


def _root_mean_square(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
