"""What new data are to teach: a task that begins, or one that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from uclearn.errors import SettingError, TaskError, no_such
from uclearn.live.fitting import check_classes, check_labels, class_count, outputs_of
from uclearn.live.known import Known
from uclearn.networks.heads import has_heads
from uclearn.tasks import Data


@dataclass(frozen=True)
class Aim:
    """Asked for: the name of the update, the known task it goes on with, the number of classes."""

    name: str
    task: str | None = None
    classes: int | None = None
    labels: tuple[str, ...] = ()

    def target(
        self, tasks: Mapping[str, Known], model: nn.Module, example: Any, data: Data
    ) -> tuple[Known, int | None]:
        """The task that is taught, and how many outputs the network needs; None: as it is."""
        if self.task is None and self.name in tasks:
            raise TaskError(
                f"There is a task {self.name!r} already. To go on with it say `task={self.name!r}` "
                "and give the update a name of its own; to begin another task choose another name."
            )
        known = None if self.task is None else known_task(tasks, self.task)
        if has_heads(model):
            if known is None:
                return self._new_head(data, len(tasks)), None
            return self._same_head(data, known), None
        return self._shared_head(data, known, len(tasks), outputs_of(model, example))

    def _shared_head(
        self, data: Data, known: Known | None, index: int, have: int | None
    ) -> tuple[Known, int | None]:
        wanted = None
        if self.classes is not None and have is not None:
            check_classes(self.classes, have)
            wanted = self.classes if self.classes > have else None
        count = None if data.targets.is_floating_point() else wanted or have
        remedy = "To add outputs for new classes, pass their total number: `classes=...`."
        check_labels(data, count, f"the network has {have} outputs", remedy)
        if known is None:
            return Known(self.name, index, count, self.labels), wanted
        return replace(known, classes=count, labels=self.labels or known.labels), wanted

    def _new_head(self, data: Data, index: int) -> Known:
        count = class_count(data, self.classes, self.name)
        check_labels(data, count, f"`classes` is {count}", "Give a larger `classes`.")
        return Known(self.name, index, count, self.labels)

    def _same_head(self, data: Data, known: Known) -> Known:
        if self.classes is not None and self.classes != known.classes:
            raise SettingError(
                f"`classes` of task {known.name!r} is {known.classes} and cannot be changed to "
                f"{self.classes}. Begin a task of its own for new classes: leave out `task`."
            )
        remedy = "For new classes begin a task of its own: leave out `task`."
        where = f"the head of task {known.name!r} has {known.classes} outputs"
        check_labels(data, known.classes, where, remedy)
        return known


def known_task(tasks: Mapping[str, Known], name: str) -> Known:
    """The task of that name, or an error that lists those there are."""
    if name not in tasks:
        raise TaskError(no_such("task", name, tasks))
    return tasks[name]
