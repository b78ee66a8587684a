"""One update: which task it teaches, trained by a copy of the method, compared with the original on
the old tasks' canaries, and what became of it."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from uclearn.choices import no_such
from uclearn.errors import SettingError, TaskError
from uclearn.live.canaries import (
    Portions,
    TaskRecord,
    fingerprint,
    right_answers,
    share_right,
)
from uclearn.live.compared import Comparison, Since, changes_between, compare
from uclearn.live.gate import Gate
from uclearn.live.journal import SCHEMA, now
from uclearn.live.new_data import check_labels, class_count, outputs_of
from uclearn.measures.capacity import concerns, digest, layers_of
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

_MANY = 3
"""Rejections in a row after which something else must change than the next update."""

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
    history: Sequence[Mapping[str, Any]] = ()
    """The journal until now."""
    notes: tuple[str, ...] = ()
    """What there is to say about the data."""

    def learn(
        self, original: Method, copied: Method, plan: Plan, loss: Loss, method_name: str
    ) -> tuple[Update, dict[str, TaskRecord]]:
        """Let `copied` learn while `original` only answers for old tasks; what came of it, and all
        tasks by name as they are known if it is kept."""
        target, portions, gate = self.target, self.portions, self.gate
        plan = plan.computed_on(next(copied.parameters()).device)
        began = time.monotonic()
        before = self._old_answers(original)
        task = Task(target.name, target.index, portions.train, self.valid, classes=target.classes)
        final_loss = train_task(copied, task, plan, loss, self.number)
        seconds = time.monotonic() - began
        after = self._old_answers(copied)
        new = self._new_answers(copied)
        compared = self._compared(before, after)
        decision, reason = self._decide(compared)
        if gate is not None:
            compared = gate.with_doubts(compared, passed=decision != "rejected")
        nodes = node_state(copied, target.index)
        update = Update(
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
            accuracy=None if new is None else share_right(new),
            compared=tuple(compared),
            seconds=round(seconds, 3),
            method=method_name,
            versions=_versions(),
            nodes=None if nodes is None else nodes["layers"],
            precision=plan.precision,
            notes=self.notes,
        )
        # who lets a loss in against the gate, or without one, begins to count anew
        by_gate = decision in ("accepted", "rejected")
        firsts = before if by_gate else after
        return update, self._tasks_afterwards(firsts, new, renewed=not by_gate)

    def _tasks_afterwards(
        self, firsts: Mapping[str, Tensor], new: Tensor | None, *, renewed: bool
    ) -> dict[str, TaskRecord]:
        """`firsts` are answers to old canaries that are taken where there are none of when the task
        was learned, or `renewed` where there are; `new` those to the new one."""
        tasks = {
            one.name: replace(one, first=firsts.get(one.name))
            if renewed or one.first is None
            else one
            for one in self.known
        }
        target, portions = self.target, self.portions
        known = tasks.get(target.name, target)
        before = replace(known, classes=target.classes, labels=target.labels)
        guards = None if portions.canary is None else new
        taught = before.taught(portions.train, portions.canary, guards)
        return {**tasks, target.name: taught.grouped(portions)}

    def _old_answers(self, method: Method) -> dict[str, Tensor]:
        """By old task, which examples of its canary `method` answers rightly."""
        return {
            task.name: right_answers(method, task.canary, task.index)
            for task in self.known
            if task.canary is not None
        }

    def _new_answers(self, method: Method) -> Tensor | None:
        """To what was set apart of the new data, or else to the validation data."""
        held_out = self.valid if self.portions.canary is None else self.portions.canary
        if held_out is None or self.target.classes is None:
            return None
        return right_answers(method, held_out, self.target.index)

    def _compared(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor]
    ) -> list[Comparison]:
        sure = 0.95 if self.gate is None else self.gate.sure
        firsts = {task.name: task.first for task in self.known}
        found = []
        for name, right in after.items():
            first = before[name] if firsts[name] is None else firsts[name]
            since = None if self.gate is None else self._since(name, first, before[name], right)
            found.append(compare(name, before[name], right, sure, since))
        return found

    def _since(self, task: str, first: Tensor | None, before: Tensor, after: Tensor) -> Since:
        """What became of a task since it was learned; the journal says how often it was looked at,
        and whether it is doubted."""
        assert first is not None
        look, doubted = _looks(self.history, task)
        total, so_far = changes_between(first, after), changes_between(first, before).drop
        return Since(**vars(total), so_far=so_far, look=look + 1, doubted=doubted)

    def _decide(self, compared: Sequence[Comparison]) -> tuple[Decision, str]:
        gate = self.gate
        if gate is None:
            return "ungated", "No gate was asked."
        passed, reason = gate.judge(compared)
        if passed:
            return "accepted", reason
        if gate.mode == "warn":
            return "warned", reason
        return "rejected", " ".join([reason, *_after_rejections(self.history)])


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
    """Per layer the initial sigma and that of each node; None where a method knows none. The
    journal has a digest of it."""
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
        """As a line of the journal, which does not grow with the network: of the nodes it has what
        they come to, layer by layer."""
        lists = {
            "compared": [_short(asdict(one)) for one in self.compared],
            "notes": list(self.notes),
            "nodes": None if self.nodes is None else digest(self.nodes),
        }
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


def _looks(history: Sequence[Mapping[str, Any]], task: str) -> tuple[int, bool]:
    """How often a gate has looked at what a task lost since it was learned, or since a loss was let
    in without its consent, and whether the task is doubted."""
    for line in reversed(history):
        for one in line.get("compared", ()):
            if one["task"] == task:
                since = one.get("since") if line["decision"] in ("accepted", "rejected") else None
                return (since["look"], since["doubted"]) if since else (0, False)
    return 0, False


def _after_rejections(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to say where several updates before were rejected, too."""
    made = [line["decision"] for line in history if line["event"] == "update"]
    before = next((k for k, decision in enumerate(reversed(made)) if decision != "rejected"), None)
    count = 1 + (len(made) if before is None else before)
    if count < _MANY:
        return []
    return [
        f"This is rejection {count} in a row: what comes now does not fit into this network beside "
        "what it knows. Widen it, replay, or teach a model of its own."
    ]


def _short(document: dict[str, Any]) -> dict[str, Any]:
    """Without digits that mean nothing."""
    return {
        key: _short(value)
        if isinstance(value, dict)
        else round(value, 6)
        if isinstance(value, float)
        else value
        for key, value in document.items()
    }


@functools.cache
def _versions() -> dict[str, str]:
    return environment()["versions"]
