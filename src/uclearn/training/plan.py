"""How long, how fast, in what portions: everything about training that is not the method."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Literal, get_args

import torch

from uclearn.choices import check_choice, check_count
from uclearn.errors import SettingError
from uclearn.native.adam import Adam
from uclearn.storage.records import without_later_defaults
from uclearn.training.precision import Precision, best_on

OptimizerName = Literal["adam", "sgd"]
Selection = Literal["likelihood", "penalised"]
ScheduleName = Literal["constant", "cosine", "one-cycle"]

_RISE = 0.3
"""The share of a task in which the rates of one cycle rise, unless `warmup` says another."""


@dataclass(frozen=True)
class Plan:
    """How each task is trained.

    Args:
        epochs: passes over each task's data.
        batch_size: examples per step, over all processes that learn together.
        lr: learning rate (a method may have its own for some parameters).
        optimizer: `"adam"` or `"sgd"`, new for each task.
        momentum: of sgd.
        weight_decay: of either.
        clip_norm: largest norm of the gradient, None for any.
        patience: epochs without a better validation loss before both learning rates are divided
            by `factor`, with a fresh optimiser; at the end of the task the best epoch is restored.
            None: plain epochs, the last one counts.
        factor: see `patience`.
        stop_below: stop a task early once the learning rate has fallen below this; None: never.
        select_by: the best epoch is chosen by the validation `"likelihood"` alone or by the
            `"penalised"` loss.
        schedule: how all learning rates (a method's own, too) go over the steps of a task:
            `"constant"`; `"cosine"`, falling to 0 as half a cosine; `"one-cycle"`, rising and then
            falling to 0 in straight lines. The last two know best how rates fall, and the last
            epoch counts: they exclude `patience`.
        warmup: the share of a task's steps in which the rates first rise from 0 to their full
            size, in a straight line; None: 0.3 for one cycle, else 0.
        precision: `"bfloat16"` computes forward passes, those of validation and evaluation too,
            under torch's autocast, where it deems that safe; weights, penalties, measures of
            importance, losses and the optimiser stay as they are. `"auto"`: bfloat16 where the
            device multiplies it natively and faster, else `"float32"`. What that comes to is
            decided where a run begins, and kept by whoever resumes it.
        seed: order of the data, dropout; the method has a seed of its own.
        checkpoint_seconds: how much work a crash may cost.
    """

    epochs: int = 20
    batch_size: int = 256
    lr: float = 0.001
    optimizer: OptimizerName = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    patience: int | None = None
    factor: float = 3.0
    stop_below: float | None = None
    select_by: Selection = "likelihood"
    schedule: ScheduleName = "constant"
    warmup: float | None = None
    precision: Precision = "float32"
    seed: int = 0
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs, "passes over each task's data")
        check_count("batch_size", self.batch_size, "examples per step")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise SettingError(f"`lr` must be positive and finite, got {self.lr}.")
        if self.patience is not None:
            check_count("patience", self.patience, "epochs to wait for a better validation loss")
        if not self.factor > 1:
            raise SettingError(
                f"`factor` must be greater than 1, got {self.factor}. Learning rates are divided "
                "by it when the validation loss has stopped falling."
            )
        check_choice("optimizer", self.optimizer, get_args(OptimizerName))
        check_choice("select_by", self.select_by, get_args(Selection))
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("schedule", self.schedule, get_args(ScheduleName))
        if self.schedule != "constant" and self.patience is not None:
            raise SettingError(
                f"`patience` must be None with the schedule {self.schedule!r}, got {self.patience}."
                " Patience divides the learning rates when the validation loss stops falling; a "
                "schedule says beforehand how they fall. Choose one of the two."
            )
        if not 0 <= self.rise < 1:
            raise SettingError(
                f"`warmup` must be 0 or greater and less than 1, got {self.warmup}. It is the "
                "share of a task's steps in which the learning rates rise."
            )

    def identity(self) -> dict[str, Any]:
        """What decides the result, to be compared with what a checkpoint was made by."""
        settings = {k: v for k, v in asdict(self).items() if k != "checkpoint_seconds"}
        return without_later_defaults("plan", settings)

    def computed_on(self, device: torch.device) -> Plan:
        """The same with the precision that `"auto"` comes to on `device`."""
        return replace(self, precision=best_on(device)) if self.precision == "auto" else self

    def autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Around a forward pass on `device`."""
        if self.computed_on(device).precision == "float32":
            return nullcontext()
        return torch.autocast(device.type, torch.bfloat16)

    @property
    def rise(self) -> float:
        """The share of a task's steps in which the learning rates rise."""
        if self.warmup is not None:
            return self.warmup
        return _RISE if self.schedule == "one-cycle" else 0.0

    @property
    def is_scheduled(self) -> bool:
        """Whether learning rates change from step to step."""
        return self.schedule != "constant" or self.rise > 0

    def rate(self, done: float) -> float:
        """What learning rates are multiplied by when the share `done` of a task is over.

        >>> Plan(schedule="one-cycle", warmup=0.5).rate(0.25)
        0.5
        >>> [round(Plan(schedule="cosine").rate(done), 3) for done in (0, 0.25, 0.5, 1)]
        [1.0, 0.854, 0.5, 0.0]
        """
        if done < self.rise:
            return done / self.rise
        left = (1 - min(done, 1.0)) / (1 - self.rise)
        if self.schedule == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return left if self.schedule == "one-cycle" else 1.0

    def make_optimizer(
        self, groups: list[dict[str, Any]], slower: float = 1.0
    ) -> torch.optim.Optimizer:
        """A fresh optimiser; every group's learning rate is divided by `slower`."""
        groups = [{**group, "lr": group["lr"] / slower} for group in groups if group["params"]]
        shared: Any = {"lr": self.lr, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, momentum=self.momentum, **shared)
        return Adam(groups, **shared)


class Advice(Enum):
    """What to do after an epoch."""

    KEEP = "a new best: remember it"
    GO_ON = "go on"
    SLOW_DOWN = "divide the learning rates and start a fresh optimiser"
    STOP = "the learning rate is too small to go on"


@dataclass
class Patience:
    """How far the patience with one task goes.

    >>> patience = Patience()
    >>> plan = Plan(patience=2, factor=3)
    >>> [patience.judge(loss, plan).name for loss in (1.0, 0.5, 0.6, 0.7, 0.6)]
    ['KEEP', 'KEEP', 'GO_ON', 'SLOW_DOWN', 'GO_ON']
    >>> patience.slower
    3.0
    """

    best: float = math.inf
    waited: int = 0
    slower: float = 1.0

    def judge(self, loss: float, plan: Plan) -> Advice:
        """Take in the validation loss of an epoch."""
        if loss < self.best:
            self.best, self.waited = loss, 0
            return Advice.KEEP
        self.waited += 1
        if plan.patience is None or self.waited < plan.patience:
            return Advice.GO_ON
        self.waited, self.slower = 0, self.slower * plan.factor
        if plan.stop_below is not None and plan.lr / self.slower < plan.stop_below:
            return Advice.STOP
        return Advice.SLOW_DOWN
