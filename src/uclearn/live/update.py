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

from uclearn.choices import no_such
from uclearn.errors import SettingError, TaskError
from uclearn.live.canaries import Portions, TaskRecord, fingerprint, right_answers
from uclearn.live.gate import Comparison, Gate, compare
from uclearn.live.new_data import check_labels, class_count, outputs_of
from uclearn.measures.capacity import concerns, layers_of
from uclearn.methods.contract import Method
from uclearn.methods.losses import Loss
from uclearn.methods.parts.wrapper import node_state
from uclearn.networks import has_heads
from uclearn.storage.recorder import environment
from uclearn.tasks import Data, Task
from uclearn.tasks.data import generator
from uclearn.training.loop import TaskLoop
from uclearn.training.plan import Plan
from uclearn.training.precision import Precision

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
        if not has_heads(model):
            return self._shared_head(data, known, len(tasks), outputs_of(model, example))
        if known is not None:
            return self._same_head(data, known), None
        count = class_count(data, self.classes, self.name)
        check_labels(data, count, f"`classes` is {count}", "Give a larger `classes`.")
        return TaskRecord(self.name, len(tasks), count, self.labels), None

    def _shared_head(
        self, data: Data, known: TaskRecord | None, index: int, have: int | None
    ) -> tuple[TaskRecord, int | None]:
        wanted = None
        if self.classes is not None and have is not None:
            if self.classes < have:
                raise SettingError(
                    f"`classes` must be at least {have}, the outputs that the network has, got "
                    f"{self.classes}. Leave it out unless classes are to be added."
                )
            wanted = self.classes if self.classes > have else None
        count = None if data.targets.is_floating_point() else wanted or have
        remedy = "To add outputs for new classes, pass their total number: `classes=...`."
        check_labels(data, count, f"the network has {have} outputs", remedy)
        if known is None:
            return TaskRecord(self.name, index, count, self.labels), wanted
        return replace(known, classes=count, labels=self.labels or known.labels), wanted

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
    portions: Portions
    valid: Data | None
    gate: Gate | None
    notes: tuple[str, ...] = ()
    """What there is to say about the data."""

    def learn(
        self, original: Method, copied: Method, plan: Plan, loss: Loss, method_name: str
    ) -> Update:
        """Let `copied` learn while `original` only answers for old tasks; what came of it."""
        target, portions, gate = self.target, self.portions, self.gate
        plan = plan.computed_on(next(copied.parameters()).device)
        began = time.monotonic()
        before = self._old_answers(original)
        task = Task(target.name, target.index, portions.train, self.valid, classes=target.classes)
        final_loss = train_task(copied, task, plan, loss, self.number)
        seconds = time.monotonic() - began
        sure = 0.95 if gate is None else gate.sure
        after = self._old_answers(copied)
        compared = [compare(name, before[name], right, sure) for name, right in after.items()]
        decision, reason = _decide(gate, compared)
        nodes = node_state(copied, target.index)
        return Update(
            number=self.number,
            time=now(),
            name=self.name,
            task=target.name,
            index=target.index,
            decision=decision,
            reason=reason,
            fingerprint=fingerprint(self.arrived),
            train=len(portions.train),
            canary=0 if portions.canary is None else len(portions.canary),
            left_out=portions.left_out,
            classes=target.classes,
            loss=final_loss,
            accuracy=self._accuracy(copied),
            compared=tuple(compared),
            seconds=round(seconds, 3),
            method=method_name,
            versions=_versions(),
            nodes=None if nodes is None else nodes["layers"],
            precision=plan.precision,
            notes=self.notes,
        )

    def tasks_afterwards(self) -> dict[str, TaskRecord]:
        """All tasks by name, as they are known once the update is kept."""
        tasks = {one.name: one for one in self.known}
        target, portions = self.target, self.portions
        known = tasks.get(target.name, target)
        before = replace(known, classes=target.classes, labels=target.labels)
        return {**tasks, target.name: before.taught(portions.train, portions.canary)}

    def _old_answers(self, method: Method) -> dict[str, Tensor]:
        """By old task, which examples of its canary `method` answers rightly."""
        return {
            task.name: right_answers(method, task.canary, task.index)
            for task in self.known
            if task.canary is not None
        }

    def _accuracy(self, method: Method) -> float | None:
        held_out = self.valid if self.portions.canary is None else self.portions.canary
        if held_out is None or self.target.classes is None:
            return None
        return float(right_answers(method, held_out, self.target.index).double().mean())


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
    precision: Precision = "float32"
    """What the forward passes of training were computed in."""
    notes: tuple[str, ...] = ()
    """What there was to say about the data, such as words that the model does not know."""

    @property
    def concerns(self) -> list[str]:
        """What is wrong with how the nodes stand after it, each with its remedy."""
        if self.nodes is None:
            return []
        return concerns(layers_of([{"event": "nodes", "task": 0, "layers": self.nodes}]))

    @property
    def kept(self) -> bool:
        """Whether the model has changed."""
        return self.decision != "rejected"

    def document(self) -> dict[str, Any]:
        """As a line of the journal."""
        compared = [asdict(one) for one in self.compared]  # JSON has lists, no tuples
        lists = {"compared": compared, "notes": list(self.notes)}
        return {"schema": SCHEMA, "event": "update", **asdict(self), **lists}


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
