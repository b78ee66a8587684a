"""One update: which task it teaches, trained by a copy of the method, compared with the original on
the old tasks' canaries, and what became of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError, no_such
from uclearn.live.canaries import Portions, TaskRecord, fingerprint, right_answers
from uclearn.live.gate import Comparison, Gate, compare
from uclearn.live.new_data import check_classes, check_labels, class_count, of_task, outputs_of
from uclearn.methods.contract import Method
from uclearn.methods.losses import Loss
from uclearn.methods.parts.wrapper import node_state
from uclearn.networks.heads import has_heads
from uclearn.storage.recorder import environment
from uclearn.tasks import Data, Task
from uclearn.tasks.data import generator
from uclearn.training.loop import TaskLoop
from uclearn.training.plan import Plan

SCHEMA = 1
"""Version of the journal's lines."""

Decision = Literal["accepted", "rejected", "warned", "ungated"]


@dataclass(frozen=True)
class UpdateTarget:
    """What an update is asked to teach: a task that begins, or a known `task` that goes on."""

    name: str
    task: str | None = None
    classes: int | None = None
    labels: tuple[str, ...] = ()

    def find(
        self, tasks: Mapping[str, TaskRecord], model: nn.Module, example: Any, data: Data
    ) -> tuple[TaskRecord, int | None]:
        """The task that is taught, and how many outputs the network needs; None: as it is."""
        if self.task is None and self.name in tasks:
            raise TaskError(
                f"There is a task {self.name!r} already. To go on with it say `task={self.name!r}` "
                "and give the update a name of its own; to begin another task choose another name."
            )
        known = None if self.task is None else known_task(tasks, self.task)
        if has_heads(model):
            if known is None:
                return self._new_head(data, len(tasks)), None
            return self._same_head(data, known), None
        return self._shared_head(data, known, len(tasks), outputs_of(model, example))

    def _shared_head(
        self, data: Data, known: TaskRecord | None, index: int, have: int | None
    ) -> tuple[TaskRecord, int | None]:
        wanted = None
        if self.classes is not None and have is not None:
            check_classes(self.classes, have)
            wanted = self.classes if self.classes > have else None
        count = None if data.targets.is_floating_point() else wanted or have
        remedy = "To add outputs for new classes, pass their total number: `classes=...`."
        check_labels(data, count, f"the network has {have} outputs", remedy)
        if known is None:
            return TaskRecord(self.name, index, count, self.labels), wanted
        return replace(known, classes=count, labels=self.labels or known.labels), wanted

    def _new_head(self, data: Data, index: int) -> TaskRecord:
        count = class_count(data, self.classes, self.name)
        check_labels(data, count, f"`classes` is {count}", "Give a larger `classes`.")
        return TaskRecord(self.name, index, count, self.labels)

    def _same_head(self, data: Data, known: TaskRecord) -> TaskRecord:
        if self.classes is not None and self.classes != known.classes:
            raise SettingError(
                f"`classes` of task {known.name!r} is {known.classes} and cannot be changed to "
                f"{self.classes}. Begin a task of its own for new classes: leave out `task`."
            )
        remedy = "For new classes begin a task of its own: leave out `task`."
        where = f"the head of task {known.name!r} has {known.classes} outputs"
        check_labels(data, known.classes, where, remedy)
        return known


def known_task(tasks: Mapping[str, TaskRecord], name: str) -> TaskRecord:
    """The task of that name, or an error that lists those there are."""
    if name not in tasks:
        raise TaskError(no_such("task", name, tasks))
    return tasks[name]


@dataclass(frozen=True)
class UpdateRequest:
    """What is to be learned, checked and divided."""

    name: str
    number: int
    """Counted from 1, over all updates, rejected ones too."""
    target: TaskRecord
    """The task that is taught."""
    known: Sequence[TaskRecord]
    """The old tasks, with their canaries."""
    arrived: Data
    """The new data as they were given."""
    portions: Portions
    valid: Data | None
    gate: Gate | None

    def task(self) -> Task:
        """As a method is told of it."""
        index, name = self.target.index, self.target.name
        train = of_task(self.portions.train, index)
        return Task(name, index, train, self.valid, classes=self.target.classes)


@dataclass(frozen=True)
class CandidateUpdate:
    """A copy of the method that has learned what was asked for."""

    request: UpdateRequest
    method: Method
    blank: nn.Module
    """The plain network that it is built from."""
    loss: float
    before: dict[str, Tensor]
    """By old task, which canary examples the original answered rightly."""
    seconds: float

    @classmethod
    def learn(
        cls,
        request: UpdateRequest,
        original: Method,
        copied: Method,
        blank: nn.Module,
        plan: Plan,
        loss: Loss,
    ) -> CandidateUpdate:
        """Let `copied` learn; `original` only answers for old tasks."""
        began = time.monotonic()
        before = {
            task.name: right_answers(original, task.canary, task.index)
            for task in request.known
            if task.canary is not None
        }
        final = train_task(copied, request.task(), plan, loss, request.number)
        return cls(request, copied, blank, final, before, time.monotonic() - began)

    def report(self, method_name: str) -> Update:
        """What came of it, and whether it may stay."""
        request = self.request
        gate, target, portions = request.gate, request.target, request.portions
        sure = 0.95 if gate is None else gate.sure
        compared = [
            compare(
                task.name,
                self.before[task.name],
                right_answers(self.method, task.canary, task.index),
                sure,
            )
            for task in request.known
            if task.canary is not None
        ]
        decision, reason = _decide(gate, compared)
        nodes = node_state(self.method, target.index)
        return Update(
            number=request.number,
            time=now(),
            name=request.name,
            task=target.name,
            index=target.index,
            decision=decision,
            reason=reason,
            fingerprint=fingerprint(request.arrived),
            train=len(portions.train),
            canary=0 if portions.canary is None else len(portions.canary),
            left_out=portions.left_out,
            classes=target.classes,
            loss=self.loss,
            accuracy=self._accuracy(),
            compared=tuple(compared),
            seconds=round(self.seconds, 3),
            method=method_name,
            versions=_versions(),
            nodes=None if nodes is None else nodes["layers"],
        )

    def _accuracy(self) -> float | None:
        target, canary = self.request.target, self.request.portions.canary
        held_out = self.request.valid if canary is None else canary
        if held_out is None or target.classes is None:
            return None
        return float(right_answers(self.method, held_out, target.index).double().mean())


@dataclass(frozen=True)
class Update:
    """What became of one call of `learn`, as the journal has it."""

    number: int
    """Counted from 1, over all updates, rejected ones too."""
    time: str
    """When it ended, UTC."""
    name: str
    task: str
    """What it taught: a new task of the same name, or a known one."""
    index: int
    """The task's number, and that of its head."""
    decision: Decision
    reason: str
    fingerprint: str
    """Of the data as they were given."""
    train: int
    """Examples trained on."""
    canary: int
    """Examples set apart."""
    left_out: int
    """Copies of canary examples, left out of training."""
    classes: int | None
    loss: float
    """Mean training loss of the last epoch."""
    accuracy: float | None
    """On the new canary or the validation data, after learning; None without either."""
    compared: tuple[Comparison, ...]
    """Old tasks on their canaries, before and after."""
    seconds: float
    method: str
    versions: Mapping[str, str]
    nodes: Mapping[str, Any] | None = None
    """Per layer the initial sigma and that of each node; None where a method knows none."""

    @property
    def kept(self) -> bool:
        """Whether the model has changed."""
        return self.decision != "rejected"

    def document(self) -> dict[str, Any]:
        """As a line of the journal."""
        compared = [asdict(one) for one in self.compared]  # JSON has lists, no tuples
        return {"schema": SCHEMA, "event": "update", **asdict(self), "compared": compared}


def train_task(method: Method, task: Task, plan: Plan, loss: Loss, number: int) -> float:
    """Train `method` on `task` as `plan` says and consolidate; the last epoch's mean loss.

    `number` is that of the update: dropout draws anew in each, and torch's own generator is given
    back as it was.
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


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


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
