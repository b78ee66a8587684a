"""The authors' schedule: slow down when the validation loss stops falling, keep the best epoch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from uclearn.training.plan import Plan


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

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)
