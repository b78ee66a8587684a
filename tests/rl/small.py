"""Small tasks, plans and methods for tests of learning."""

from __future__ import annotations

from typing import Any

import torch

from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import ActorCritic
from uclearn.rl.simulators import Spaces
from uclearn.rl.tasks import tasks_of

HERE = "tests.rl.little"
SEQUENCE = (f"{HERE}:Aim-v0", f"{HERE}:Turn-v0")
SPACES = {
    SEQUENCE[0]: Spaces(3, 1, (-2.0,), (2.0,)),
    SEQUENCE[1]: Spaces(5, 2, (-2.0, -2.0), (2.0, 2.0)),
}
WIDTH = 5
SETTINGS: dict[str, dict[str, Any]] = {
    "finetuning": {},
    "ewc": {"strength": 10.0},
    "si": {},
    "mas": {},
    "ucl": {"sigma": 0.05, "beta": 5e-6, "sampling": "weight"},
}


def small_plan(**changes: Any) -> PPOPlan:
    settings: dict[str, Any] = {
        "steps_per_task": 6 * 256,
        "environments": 8,
        "workers": 1,
        "rollout_steps": 32,
        "epochs": 2,
        "renew_every": 2,
        "evaluation_episodes": 2,
    }
    return PPOPlan(**{**settings, **changes})


def small_method(name: str, begun: int = 0, **changes: Any) -> Method:
    """A method around a small policy, with heads for the first `begun` tasks."""
    settings = {name: {**SETTINGS[name], **changes}}
    method = build(name, ActorCritic(WIDTH, (8, 8)), torch.zeros(1, WIDTH), settings)
    for task in tasks_of(SEQUENCE, SPACES)[:begun]:
        method.begin_task(task)
    return method
