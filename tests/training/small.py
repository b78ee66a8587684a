"""A problem small enough to be learned a hundred times: three tasks on blobs, with or without
heads."""

from __future__ import annotations

from typing import Any

import torch

from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import Plan

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "hat": {"hat": {"tasks": 3}},
    "lwf": {"lwf": {"strength": 1.0}},  # by rule it would fight the new task over an only head
    "vcl": {"vcl": {"samples": 3, "prediction_samples": 4}},
    "vcl+coreset": {
        "vcl": {"samples": 3, "prediction_samples": 4},
        "coreset": {"size": 6},
    },
    "ucl+replay": {"replay": {"size": 12}},
    "finetuning+replay": {"replay": {"size": 12}},
}
NAMES = [
    "finetuning",
    "joint",
    "ucl",
    "ewc",
    "si",
    "mas",
    "rwalk",
    "lwf",
    "vcl",
    "hat",
    "vcl+coreset",
    "ucl+replay",
    "finetuning+replay",
]


def blobs(task: int, count: int, seed: int) -> Data:
    """Three clouds in the plane, turned a little further for each task."""
    generator = torch.Generator().manual_seed(1000 * task + seed)
    labels = torch.arange(count) % 3
    angle = labels * 2.1 + task * 0.9
    centres = torch.stack([angle.cos(), angle.sin()], dim=1) * 2
    points = centres + 0.4 * torch.randn(count, 2, generator=generator)
    return Data(points, labels, task=task)


def small_tasks(heads: bool = True, tasks: int = 3, count: int = 48) -> TaskSequence:
    """`tasks` tasks of three classes."""
    made = [
        Task(f"turn {i}", i, blobs(i, count, 0), None, blobs(i, 60, 1), classes=3)
        for i in range(tasks)
    ]
    return TaskSequence("turning blobs", made, heads)


def small_method(name: str, heads: bool = True, seed: int = 0) -> Method:
    """A method around a 2-8-8 network."""
    network = mlp(2, (8, 8), None if heads else 3, seed=seed)
    return build(name, network, torch.zeros(1, 2), SETTINGS.get(name))


def small_plan(**changes: Any) -> Plan:
    """A few seconds at the most, with the authors' schedule."""
    given: dict[str, Any] = {"epochs": 3, "batch_size": 16, "lr": 0.01, "patience": 1}
    return Plan(**{**given, **changes})
