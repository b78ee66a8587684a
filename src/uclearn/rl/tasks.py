"""Environments as tasks that methods understand."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from uclearn.errors import TaskError
from uclearn.methods.contract import Method
from uclearn.rl.environments import survey
from uclearn.rl.policy import ActorCritic
from uclearn.rl.simulators import Spaces
from uclearn.tasks import Data, Task


def widest(sequence: Sequence[str], spaces: dict[str, Spaces] | None = None) -> int:
    """Numbers in an observation of the widest of these environments: the policy's `width`.

    >>> widest(["Pendulum-v1"])
    3
    """
    found = survey(sequence) if spaces is None else spaces
    return max(found[name].observation_size for name in sequence)


def tasks_of(sequence: Sequence[str], spaces: dict[str, Spaces]) -> list[Task]:
    """Environments as tasks: `classes` is the number of actions; there are no stored examples."""
    nothing = Data(torch.zeros(0, widest(sequence, spaces)), torch.zeros(0))
    return [
        Task(name, index, nothing, classes=spaces[name].action_size)
        for index, name in enumerate(sequence)
    ]


def checked_width(method: Method, wanted: int) -> int:
    """The width of the method's policy, if it is one and wide enough."""
    model = method.model
    if not isinstance(model, ActorCritic):
        raise TaskError(
            f"`method` must be built around an ActorCritic, got one around a "
            f"{type(model).__name__}. `build(name, ActorCritic(widest(sequence)), example)` makes "
            "one."
        )
    if model.width < wanted:
        raise TaskError(
            f"The policy's `width` must be at least {wanted}, the numbers in an observation of the "
            f"widest task, got {model.width}. Build it with `ActorCritic(widest(sequence))`."
        )
    return model.width
