"""What the others are measured by: fine-tuning, which learns each task as if it were the first, and
joint training, which learns all data of all tasks so far at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from uclearn.errors import SettingError, TaskError
from uclearn.methods.contract import Method
from uclearn.methods.facts import Cost, Facts, remembers_nothing
from uclearn.tasks.data import DataLike, Joined, join
from uclearn.tasks.loader import stored
from uclearn.tasks.task import Task


class FineTuning(Method):
    """The contract unchanged: nothing is kept, nothing is held.

    Args:
        model: the network; the method works on a copy.
        example: not needed.

    >>> FineTuning(nn.Linear(2, 2)).penalty()
    tensor(0.)
    """

    facts = Facts(
        holds=False,
        works_in_rl=True,
        cost=lambda n: Cost(n.plain, n.shared + n.head),
        grow=remembers_nothing,
    )

    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)


class Joint(Method):
    """Learns every task together with all data of the tasks before it.

    An epoch of task t goes through the examples of tasks 0 to t, shuffled together; with heads each
    example goes through its own. The weights carry over from task to task. Only references to
    the data are kept, none of it in `state_dict`: to resume, call `begin_task` for the earlier
    tasks again. Data from loaders are read into memory, since batches mix all tasks.

    Of T tasks of a size that is (T + 1)/2 times the work of any other method. Where only the end
    matters, the bar that others are measured by, `once` costs no more than they do: nothing is
    learned until the last task, then everything in one go.

    Args:
        model: the network; the method works on a copy.
        example: not needed.
        once: tasks before the last have no data to train on; the last one has those of all.
        tasks: how many there will be; `once` must know.

    >>> from uclearn.tasks import Data
    >>> method = Joint(nn.Linear(2, 2))
    >>> for t in range(3):
    ...     task = Task(f"task {t}", t, Data(torch.zeros(5, 2), torch.zeros(5).long(), task=t))
    ...     print(len(method.begin_task(task).train))
    5
    10
    15
    """

    facts = Facts(holds=False, cost=lambda n: Cost(n.plain, n.plain), grow=remembers_nothing)

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        once: bool = False,
        tasks: int | None = None,
    ) -> None:
        super().__init__(model)
        if once and tasks is None:
            raise SettingError(
                "`tasks` must be given with `once`, got None. Joint training at once waits for the "
                "last task, so it must know how many there will be."
            )
        self._last = tasks - 1 if once and tasks is not None else 0
        self._seen = _Shelf()

    def begin_task(self, task: Task) -> Task:
        """The task with the training and validation data of all tasks up to it; none to train on
        while it waits for the last one."""
        super().begin_task(task)
        missing = [index for index in range(task.index) if index not in self._seen]
        if missing:
            raise TaskError(
                f"Joint training of task {task.name!r} (index {task.index}) needs the data of all "
                f"tasks before it; missing: {', '.join(map(str, missing))}. Call `begin_task` for "
                "them first, in order; after loading a saved state, too."
            )
        valid = None if task.valid is None else stored(task.valid)
        self._seen[task.index] = replace(task, train=stored(task.train), valid=valid)
        if task.index < self._last:
            nothing = torch.arange(0)
            return replace(task, train=self._seen[task.index].train.subset(nothing))
        together = [self._seen[index] for index in range(task.index + 1)]
        # labels are checked against `classes`, and now they come from every task
        classes = max((t.classes for t in together if t.classes is not None), default=None)
        train = join(each.train for each in together)
        return replace(task, train=train, valid=_validation(together), classes=classes)


class _Shelf(dict[int, Task]):
    """Tasks by number. A copy of the method refers to the same data: they are only read."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shelf:
        return _Shelf(self)


def _validation(tasks: list[Task]) -> Joined | None:
    """All validation data, a task without any standing in with its training data."""
    if all(task.valid is None for task in tasks):
        return None
    parts: list[DataLike] = [task.validation() for task in tasks]
    return join(parts)
