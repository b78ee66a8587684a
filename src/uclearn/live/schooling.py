"""One task, trained from beginning to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.tasks import Data, Task
from uclearn.tasks.data import generator
from uclearn.training.loop import TaskLoop
from uclearn.training.losses import Loss
from uclearn.training.plan import Plan

ClassWeights: TypeAlias = Sequence[float] | Tensor | Literal["balanced"]


def schooled(method: Method, task: Task, plan: Plan, loss: Loss, number: int) -> float:
    """Train `method` on `task` as `plan` says and consolidate; the last epoch's mean loss.

    `number` counts the updates before: dropout draws anew in each, and torch's own generator is
    given back as it was.
    """
    seed = int(torch.randint(2**62, (), generator=generator(plan.seed, f"update {number}")))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        loop = TaskLoop(method, method.begin_task(task), plan, loss)
        told: dict[str, Any] = {}
        while not loop.done:
            told = loop.run_epoch(lambda *_: None)
        loop.finish()
    return float(told["loss"])


def weighted(loss: Loss, weights: ClassWeights | None, train: Data, classes: int | None) -> Loss:
    """`loss` with each example weighed by its class; over `train` the weights average to 1."""
    if weights is None:
        return loss
    labels = train.all_targets()
    if classes is None or labels.is_floating_point():
        raise SettingError("`class_weights` need classes, but the targets are numbers.")
    chosen = _weights(weights, labels, classes)
    scaled = chosen / chosen[labels].mean()
    return lambda outputs, targets: loss(outputs, targets) * scaled.to(outputs)[targets]


def _weights(weights: ClassWeights, labels: Tensor, classes: int) -> Tensor:
    counts = torch.bincount(labels, minlength=classes)
    if isinstance(weights, str):
        if weights != "balanced":
            raise SettingError(
                f"`class_weights` must be 'balanced' or a number for each class, got {weights!r}."
            )
        return 1 / counts.clamp_min(1).float()
    chosen = torch.as_tensor(weights, dtype=torch.float32)
    if chosen.shape != (classes,) or not bool((chosen >= 0).all()) or not chosen[labels].any():
        raise SettingError(
            f"`class_weights` must hold one number of 0 or greater for each of the {classes} "
            f"classes, and not 0 for all that occur, got {chosen.tolist()}."
        )
    return chosen
