"""How long, how fast, in what portions: everything about training that is not the method."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Literal, get_args

import torch

from uclearn.choices import check_choice, check_count
from uclearn.errors import SettingError
from uclearn.storage.records import without_later_defaults

OptimizerName = Literal["adam", "sgd"]
Selection = Literal["likelihood", "penalised"]
Precision = Literal["float32", "bfloat16"]


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
        precision: `"bfloat16"` computes training's forward passes under torch's autocast, where
            it deems that safe; weights, penalties and evaluations stay as they are.
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

    def identity(self) -> dict[str, Any]:
        """What decides the result, to be compared with what a checkpoint was made by."""
        settings = {k: v for k, v in asdict(self).items() if k != "checkpoint_seconds"}
        return without_later_defaults("plan", settings)

    def autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Around a forward pass on `device`."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(device.type, torch.bfloat16)

    def make_optimizer(
        self, groups: list[dict[str, Any]], slower: float = 1.0
    ) -> torch.optim.Optimizer:
        """A fresh optimiser; every group's learning rate is divided by `slower`."""
        groups = [{**group, "lr": group["lr"] / slower} for group in groups if group["params"]]
        shared: Any = {"lr": self.lr, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, momentum=self.momentum, **shared)
        return torch.optim.Adam(groups, **shared)


class Advice(Enum):
    """What to do after an epoch."""

    KEEP = "a new best: remember it"
    GO_ON = "go on"
    SLOW_DOWN = "divide the learning rates and start a fresh optimiser"
    STOP = "the learning rate is too small to go on"


@dataclass
class Schedule:
    """Where one task's schedule stands.

    >>> schedule = Schedule()
    >>> plan = Plan(patience=2, factor=3)
    >>> [schedule.judge(loss, plan).name for loss in (1.0, 0.5, 0.6, 0.7, 0.6)]
    ['KEEP', 'KEEP', 'GO_ON', 'SLOW_DOWN', 'GO_ON']
    >>> schedule.slower
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
