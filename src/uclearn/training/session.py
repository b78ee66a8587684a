"""A whole sequence of tasks: learned, judged after each, saved on the way, resumed where it stood;
and what a method predicts, with how sure it is.

Killed at any moment and started again by the same call, a session ends bit for bit as one that was
never interrupted: order and noise follow from seeds and counters, and everything else is in the
checkpoint.

Several processes that learn one model (see `uclearn.ranks`) each call `learn` with the same
arguments. They judge, decide, stop and resume together; the first alone writes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError
from uclearn.gaussian import use_samples
from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import Loss, Score, correct, cross_entropy, squared_error
from uclearn.methods.parts.wrapper import concerns_of, innermost
from uclearn.networks import has_heads, run
from uclearn.ranks import ALONE, Ranks, present
from uclearn.session import EventSink, Journal, Observer, Session, StoppedError
from uclearn.tasks import Task, TaskSequence
from uclearn.training import record as records
from uclearn.training.begin import begin_task, check_told, judged
from uclearn.training.loop import AS_IT_IS, TaskLoop, mean_score
from uclearn.training.nodes import NodeJournal
from uclearn.training.plan import Plan
from uclearn.training.precision import Precision, check_survives

__all__ = ["Journal", "Observer", "Outcome", "StoppedError", "learn"]

_SECONDS_BETWEEN_STEP_EVENTS = 0.25
_log = logging.getLogger("uclearn")


@dataclass
class Outcome:
    """What a session found."""

    accuracy_matrix: list[list[float]] = field(default_factory=list)
    """`R[i][j]`, the score on task j after task i; NaN where it cannot be had."""
    untrained: list[float] = field(default_factory=list)
    """The scores before anything was learned, for forward transfer; NaN with heads."""
    seconds: float = 0.0
    """Time spent learning and judging, over all resumed parts."""
    precision: Precision | None = None
    """What the forward passes were computed in: decided at the beginning, kept by whoever resumes
    it. None: a session of a version that did not say."""


def learn(
    method: Method,
    tasks: TaskSequence,
    plan: Plan,
    *,
    loss: Loss | None = None,
    score: Score | None = None,
    score_of: Callable[[Task], Score] | None = None,
    folder: Path | None = None,
    journal: Journal | None = None,
    observer: Observer | None = None,
    record: str | Path | None = None,
) -> Outcome:
    """Learn `tasks` one after the other.

    Args:
        method: freshly built; with a checkpoint in `folder` it goes on from there.
        tasks: what to learn.
        plan: how.
        loss: per-example loss; cross-entropy, or squared error for tasks without classes.
        score: per-example score for the matrix; accuracy, or minus the loss.
        score_of: the same where each task has a score of its own, such as `explained`.
        folder: where the checkpoint is kept; None: none is. All processes must see the same one.
        journal: where epochs and evaluations are recorded, by the first process.
        observer: told what happens, for display.
        record: a folder below which it is recorded as `uclearn compare` records runs, for
            `uclearn runs`, `report` and `watch`; called again it goes on, or is done. Takes the
            place of `folder` and `journal`.
    """
    if not isinstance(tasks, TaskSequence):
        raise TaskError(
            f"`tasks` must be a TaskSequence, got {type(tasks).__name__}. It says whether each task"
            " has an output layer of its own: `TaskSequence('mine', tasks, heads=True)`."
        )
    if record is not None:
        if folder is not None or journal is not None:
            raise SettingError("`record` has a folder and a journal of its own: leave those out.")
        with records.begin(Path(record), method, tasks, plan) as kept:
            own = NodeJournal(kept, method)
            judged: Any = {"loss": loss, "score": score, "score_of": score_of}
            outcome = learn(
                method, tasks, plan, folder=kept.folder, journal=own, observer=observer, **judged
            )
            records.finish(kept, method, tasks, outcome)
        return outcome
    ranks = present()
    events = EventSink(journal, observer)
    work = _Learning(method, tasks, plan, loss, score, ranks)
    work.score_of = score_of
    Session(
        work,
        folder,
        events,
        seed=plan.seed,
        device=next(method.parameters()).device,
        ranks=ranks,
        save_every=plan.checkpoint_seconds,
    ).run()
    return work.outcome


class _Learning:
    """Task after task: the work of a session."""

    kind = "session"

    def __init__(
        self,
        method: Method,
        tasks: TaskSequence,
        plan: Plan,
        loss: Loss | None,
        score: Score | None,
        ranks: Ranks,
    ) -> None:
        self.method, self.tasks, self.asked, self.ranks = method, tasks, plan, ranks
        self.plan = plan  # its precision, if "auto", is decided by `begin` or `load`
        classifies = tasks[0].classes is not None
        self.loss = loss or (cross_entropy if classifies else squared_error)
        self.score = score or (correct if classifies else self._minus_loss)
        self.score_of: Callable[[Task], Score] | None = None
        kind = type(innermost(method))
        check_told(kind.__name__, kind.facts, tasks.grows)
        method.use_loss(loss)
        self.outcome = Outcome()
        self.loop: TaskLoop | None = None
        self.voiced: set[str] = set()
        self.last_told = time.monotonic()
        if ranks.size > 1 and method.noise is not None:
            method.noise.stream = ranks.rank

    @property
    def device(self) -> torch.device:
        return next(self.method.parameters()).device

    @property
    def done(self) -> bool:
        return len(self.outcome.accuracy_matrix) == len(self.tasks)

    def begin(self) -> None:
        self._settle_precision()
        self.outcome.untrained = self._scores(learned=0)
        self._require_alike()

    def advance(self, session: Session) -> None:
        """One task, or what is left of it."""
        index = len(self.outcome.accuracy_matrix)
        if self.loop is None:
            if index == 0 and self.asked.precision == "auto":
                session.events.record("precision", {"precision": self.plan.precision})
            self.loop = self._task_loop(index)
        session.events.tell(
            "task",
            task=index,
            name=self.tasks[index].name,
            epochs=self.plan.epochs,
            precision=self.plan.precision,
        )

        def after_step(loop: TaskLoop, step: Step, value: Tensor) -> None:
            self._tell_step(session.events, loop, step, value)
            session.pause()

        while not self.loop.done:
            session.events.record("epoch", self.loop.run_epoch(after_step))
            session.pause()
        self.loop.finish()
        row = [math.nan] * len(self.tasks)
        if self.loop.examples:  # a method that waits has learned nothing that could be judged
            row = self._scores(learned=index + 1)
        self.outcome.accuracy_matrix.append(row)
        session.events.record("evaluation", {"task": index, "scores": row})
        self._voice_concerns(session.events, index)
        self.loop = None
        session.save()

    def identity(self) -> dict[str, Any]:
        return {
            "method": type(self.method).__name__,
            "tasks": f"{self.tasks.name}, {len(self.tasks)} tasks",
            **self.asked.identity(),
        }

    def state(self) -> dict[str, Any]:
        return {"loop": None if self.loop is None else self.loop.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.outcome = Outcome(**state["outcome"])
        self._settle_precision(self.outcome.precision)
        done = len(self.outcome.accuracy_matrix)
        for index in range(done):  # outputs and references to data, as the first time
            begin_task(self.method, self.tasks, index, self.plan.seed)
        if state["loop"] is not None:
            self.loop = self._task_loop(done)
        self.method.load_state_dict(state["method"])
        if self.loop is not None:
            self.loop.load_state(state["loop"])
        self._require_alike()

    def _settle_precision(self, begun: Precision | None = None) -> None:
        """What "auto" came to where the session was `begun`; else what it comes to here, with
        fewer digits only if all processes gain by it."""
        if self.asked.precision != "auto":
            begun = self.asked.precision
        elif begun == "bfloat16":
            check_survives(self.device)
        elif begun is None:
            here = self.asked.computed_on(self.device).precision
            begun = "float32" if self.ranks.any(here == "float32")[0] else "bfloat16"
        self.plan = replace(self.asked, precision=begun)
        self.outcome.precision = begun

    def _task_loop(self, index: int) -> TaskLoop:
        task = begin_task(self.method, self.tasks, index, self.plan.seed)
        loop = TaskLoop(self.method, task, self.plan, self.loss, ranks=self.ranks)
        if not loop.examples and not len(self.tasks[index].train):
            raise TaskError(f"Task {task.name!r} has no examples to train on. Leave it out.")
        return loop

    def _scores(self, learned: int) -> list[float]:
        autocast = self.plan.autocast(self.device)
        score = self.score_of or (lambda task: self.score)
        return evaluate_all(
            self.method, self.tasks, learned, score_of=score, ranks=self.ranks, autocast=autocast
        )

    def _minus_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -self.loss(outputs, targets)

    def _voice_concerns(self, events: EventSink, index: int) -> None:
        """To whoever watches and, each once, to the log: a user's program may have no observer."""
        for concern in concerns_of(self.method):
            events.tell("concern", task=index, text=concern)
            if concern not in self.voiced and self.ranks.rank == 0:
                self.voiced.add(concern)
                _log.warning("Task %r: %s", self.tasks[index].name, concern)

    def _require_alike(self) -> None:
        """Processes that begin with different weights would never have the same."""
        if self.ranks.size == 1:
            return
        sums = [p.detach().double().sum() for p in self.method.parameters()]
        found = self.ranks.gather(torch.stack(sums).nan_to_num())
        if not torch.equal(found, found[:1].expand_as(found)):
            raise TaskError(
                f"The {self.ranks.size} processes begin with different weights. Build the network "
                "and the method alike in all of them: seed torch with the same number first."
            )

    def _tell_step(self, events: EventSink, loop: TaskLoop, step: Step, value: Tensor) -> None:
        """Now and then, and only if somebody is told."""
        now = time.monotonic()
        if not events.is_observed or now - self.last_told <= _SECONDS_BETWEEN_STEP_EVENTS:
            return
        self.last_told = now
        with torch.no_grad():
            penalty = float(self.method.penalty(step))
        events.tell(
            "step",
            task=step.task,
            epoch=loop.epoch,
            batch=loop.batch,
            batches=loop.batches,
            loss=float(value),
            penalty=penalty,
        )


@torch.no_grad()
def evaluate(
    method: Method,
    task: Task,
    score: Score = correct,
    size: int = 1024,
    *,
    ranks: Ranks = ALONE,
    autocast: AbstractContextManager[Any] = AS_IT_IS,
) -> float:
    """The mean score on the task's test data, told which task it is; of several processes (`ranks`)
    each goes through a part of them. `autocast` is around the forward passes."""
    if task.test is None:
        raise TaskError(
            f"Task {task.name!r} has no test data, so it cannot be judged. Give it `test`."
        )
    with method.inference(task.index) as network:
        return mean_score(network, task.test, score, size, ranks=ranks, autocast=autocast)


@torch.no_grad()
def evaluate_all(
    method: Method,
    tasks: TaskSequence,
    learned: int,
    score_of: Callable[[Task], Score] = lambda task: correct,
    *,
    ranks: Ranks = ALONE,
    autocast: AbstractContextManager[Any] = AS_IT_IS,
) -> list[float]:
    """One row of the accuracy matrix: every learned task, and the tasks to come where the network
    has an output layer for them already (NaN elsewhere). `score_of` says how each is judged."""
    tried = learned if has_heads(method.model) else judged(tasks, learned)
    scores = [
        evaluate(method, task, score_of(task), ranks=ranks, autocast=autocast)
        for task in tasks[:tried]
    ]
    return scores + [float("nan")] * (len(tasks) - tried)


def explained(task: Task) -> Score:
    """The share of the variance of a task's test targets that predictions explain (R²), as a score:
    1 is perfect, 0 what their mean achieves, and it can be less."""
    if task.test is None:
        raise TaskError(f"Task {task.name!r} has no test data, so it cannot be judged.")
    targets = task.test.all_targets().flatten(1) if len(task.test) else torch.zeros(1, 1)
    variance = float((targets - targets.mean(0)).square().sum(1).mean()) or 1.0
    return lambda outputs, targets: 1 - squared_error(outputs, targets) / variance


@dataclass(frozen=True)
class Prediction:
    """What a method predicts, and how sure it is."""

    probabilities: Tensor
    """(batch, classes), averaged over draws."""
    entropy: Tensor
    """(batch,) in nats: 0 is certain."""
    disagreement: Tensor
    """(batch,) mutual information between prediction and weights: the part of the entropy that
    comes from not knowing the weights; 0 without draws."""
    task: Tensor
    """(batch,) the task each prediction is made for: given, or inferred."""


@torch.no_grad()
def predict(method: Method, inputs: Any, task: int, draws: int = 0) -> Prediction:
    """Class probabilities with their uncertainty.

    Args:
        method: any method.
        inputs: a batch.
        task: which task it belongs to; `uclearn.live.infer_task` finds out where that is not known.
        draws: predictions averaged over that many draws of the weights; 0: the means alone.
    """
    with method.inference(task) as network:
        each = torch.stack(list(_draw_probabilities(network, inputs, task, draws)))
    mean = each.mean(0)  # (batch, classes, places...)
    entropy = _entropy(mean, 1)
    return Prediction(
        probabilities=mean,
        entropy=entropy,
        disagreement=(entropy - _entropy(each, 2).mean(0)).clamp_min(0),
        task=torch.full((len(mean),), task),
    )


def _draw_probabilities(network: nn.Module, inputs: Any, task: int, draws: int) -> Iterator[Tensor]:
    if draws == 0:
        yield run(network, inputs, task).softmax(dim=1)
        return
    with use_samples(network):
        for _ in range(draws):
            yield run(network, inputs, task).softmax(dim=1)


def _entropy(probabilities: Tensor, dim: int) -> Tensor:
    entropy: Tensor = torch.special.entr(probabilities).sum(dim=dim)
    return entropy
