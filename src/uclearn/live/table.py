"""Examples for a model in use, as they stood in a file: what an update is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.live.canaries import TaskRecord, hashes
from uclearn.live.update import known_task
from uclearn.tasks.own.encoding import Encoding
from uclearn.tasks.own.examples import in_order


@dataclass(frozen=True)
class Table:
    """What stood in a file."""

    inputs: Tensor
    """(examples, ...) float32."""
    labels: tuple[str, ...] | None
    """One for each example, as a word; None where none were asked for."""
    encoding: Encoding | None = None
    """How its columns became features; None: it has no columns."""
    notes: tuple[str, ...] = ()
    """What there is to say about it."""
    targets: Tensor | None = None
    """(examples, 1) float32, as they stood there: numbers to be predicted, instead of labels."""
    groups: tuple[str, ...] | None = None
    """What each example belongs to and is not to be torn from, as a patient."""

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

    def rows(self, chosen: Tensor, *notes: str) -> Table:
        """Those that are `chosen`, (examples,) bool, and what there is to say about that."""
        rows = chosen.nonzero().flatten().tolist()
        return replace(
            self,
            inputs=self.inputs[chosen],
            labels=None if self.labels is None else tuple(self.labels[row] for row in rows),
            targets=None if self.targets is None else self.targets[chosen],
            groups=None if self.groups is None else tuple(self.groups[row] for row in rows),
            notes=(*self.notes, *notes),
        )


@dataclass(frozen=True)
class Knows:
    """What a model has been taught from."""

    shape: tuple[int, ...] | None = None
    """Of one example; None: it has not been taught yet."""
    encoding: Encoding | None = None
    """Of the columns of tables."""


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
    table = _without_canaries(table, tasks.values())
    rest = {"groups": table.groups, "notes": table.notes}
    if table.targets is not None:
        assert table.encoding is not None
        assert table.encoding.target is not None
        mean, spread = table.encoding.target
        scaled = (table.targets - mean) / spread
        return {"data": (table.inputs, scaled), "labels": (), "classes": None, **rest}
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
    return {"data": data, "labels": labels, "classes": classes, **rest}


def _without_canaries(table: Table, tasks: Iterable[TaskRecord]) -> Table:
    """Without rows of which the model sees the same as of rows that guard an old task: with words
    and gaps that is common, and no fault of the data."""
    guards = [
        hashes(task.canary.batch(torch.arange(len(task.canary))).inputs)
        for task in tasks
        if task.canary is not None
    ]
    if table.encoding is None or not guards:
        return table
    twins = torch.isin(hashes(table.inputs), torch.cat(guards))
    if not twins.any():
        return table
    if twins.all():
        raise DataError(
            "Of all rows the model sees the same as of rows that are set apart to guard old tasks, "
            "so that none is left to learn from. Give it more columns, or smaller canaries."
        )
    note = f"{int(twins.sum())} rows that look like some that guard old tasks are left out."
    return table.rows(~twins, note)
