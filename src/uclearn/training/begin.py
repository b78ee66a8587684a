"""A task of a sequence begins: where tasks bring new classes to one output layer, that grows."""

from __future__ import annotations

import torch

from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.methods.facts import Facts
from uclearn.surgery.outputs import grow_outputs
from uclearn.tasks import Task, TaskSequence
from uclearn.tasks.data import generator


def begin_task(method: Method, tasks: TaskSequence, index: int, seed: int) -> Task:
    """Task number `index`, as `method.begin_task` returns it. New outputs are drawn from `seed`."""
    task = tasks[index]
    if tasks.grows:
        assert task.classes is not None
        device = next(method.parameters()).device
        some = torch.arange(min(2, len(tasks[0].train)))
        example = tasks[0].train.batch(some).inputs.to(device)
        grow_outputs(method, task.classes, example, generator(seed, f"outputs of task {index}"))
    return method.begin_task(task)


def judged(tasks: TaskSequence, learned: int) -> int:
    """How many tasks, from the first, one output layer serves after so many were learned."""
    if not tasks.grows:
        return len(tasks)
    known = tasks[max(learned, 1) - 1].classes or 0
    return sum((task.classes or 0) <= known for task in tasks)


def check_told(name: str, facts: Facts, grows: bool) -> None:
    """Refuse a method that must be told the task, where classes of all tasks are to be told apart
    without it."""
    if grows and facts.needs_task:
        raise SettingError(
            f"{name} must be told which task an example is of, and where one output layer grows "
            "with the classes it is not: that would give the answer away. Leave it out, or give "
            "every task a head (`--scenario task`)."
        )
