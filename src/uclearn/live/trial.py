"""An update on trial: learned by a copy, compared with the original, then judged."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from uclearn.live.canaries import Portions
from uclearn.live.fingerprints import fingerprint
from uclearn.live.gate import Comparison, Gate, compare
from uclearn.live.intake import of_task
from uclearn.live.journal import Decision, Update, now
from uclearn.live.known import Known, right_answers
from uclearn.live.schooling import schooled
from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import node_state
from uclearn.storage.recorder import environment
from uclearn.tasks import Data, Task
from uclearn.training.losses import Loss
from uclearn.training.plan import Plan


@dataclass(frozen=True)
class Lesson:
    """What is to be learned, checked and divided."""

    name: str
    target: Known
    known: Sequence[Known]
    """The old tasks, with their canaries."""
    arrived: Data
    portions: Portions
    valid: Data | None
    gate: Gate | None

    def task(self) -> Task:
        """As a method is told of it."""
        index, name = self.target.index, self.target.name
        train = of_task(self.portions.train, index)
        return Task(name, index, train, self.valid, classes=self.target.classes)


@dataclass(frozen=True)
class Trial:
    """A copy of the method that has learned the lesson."""

    method: Method
    blank: nn.Module
    """The plain network that it is built from."""
    loss: float
    before: dict[str, Tensor]
    """By old task, which canary examples were answered rightly."""
    seconds: float

    @classmethod
    def run(
        cls,
        lesson: Lesson,
        original: Method,
        copied: Method,
        blank: nn.Module,
        plan: Plan,
        loss: Loss,
        number: int,
    ) -> Trial:
        """Let `copied` learn; `original` only answers for old tasks."""
        began = time.monotonic()
        guarded = [one for one in lesson.known if one.canary is not None]
        before = {one.name: one.answers(original) for one in guarded}
        final = schooled(copied, lesson.task(), plan, loss, number)
        return cls(copied, blank, final, before, time.monotonic() - began)

    def report(self, lesson: Lesson, number: int, method_name: str) -> Update:
        """What came of it, and whether it may stay."""
        gate, target, portions = lesson.gate, lesson.target, lesson.portions
        sure = 0.95 if gate is None else gate.sure
        compared = [
            compare(one.name, self.before[one.name], one.answers(self.method), sure)
            for one in lesson.known
            if one.name in self.before
        ]
        decision, reason = _decide(gate, compared)
        nodes = node_state(self.method, target.index)
        return Update(
            number=number,
            time=now(),
            name=lesson.name,
            task=target.name,
            index=target.index,
            decision=decision,
            reason=reason,
            fingerprint=fingerprint(lesson.arrived),
            train=len(portions.train),
            canary=0 if portions.canary is None else len(portions.canary),
            left_out=portions.left_out,
            classes=target.classes,
            loss=self.loss,
            accuracy=self._accuracy(lesson),
            compared=tuple(compared),
            seconds=round(self.seconds, 3),
            method=method_name,
            versions=_versions(),
            nodes=None if nodes is None else nodes["layers"],
        )

    def _accuracy(self, lesson: Lesson) -> float | None:
        held_out = lesson.valid if lesson.portions.canary is None else lesson.portions.canary
        if held_out is None or lesson.target.classes is None:
            return None
        return float(right_answers(self.method, held_out, lesson.target.index).double().mean())


def _decide(gate: Gate | None, compared: Sequence[Comparison]) -> tuple[Decision, str]:
    if gate is None:
        return "ungated", "No gate was asked."
    passed, reason = gate.judge(compared)
    if passed:
        return "accepted", reason
    return ("rejected", reason) if gate.mode == "reject" else ("warned", reason)


@functools.cache
def _versions() -> dict[str, str]:
    return environment()["versions"]
