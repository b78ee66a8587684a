"""A whole sequence of tasks: learned, judged after each, saved on the way, resumed where it stood.

Killed at any moment and started again by the same call, a session ends bit for bit as one that was
never interrupted: order and noise follow from seeds and counters, and everything else is in the
checkpoint.

Several processes that learn one model (see `uclearn.ranks`) each call `learn` with the same
arguments. They judge, decide, stop and resume together; the first alone writes.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uclearn.errors import CheckpointError, TaskError
from uclearn.methods.contract import Method, Step
from uclearn.ranks import Ranks, present
from uclearn.storage.checkpoint import CHECKPOINT_NAME, has_checkpoint, load_own, save
from uclearn.storage.telling import Audience, Journal, Observer, StoppedError, asked_politely
from uclearn.tasks import TaskSequence
from uclearn.training.evaluate import Score, correct, evaluate_all
from uclearn.training.loop import TaskLoop
from uclearn.training.losses import Loss, cross_entropy, squared_error
from uclearn.training.plan import Plan
from uclearn.training.randomness import own_randomness, random_state, set_random_state

__all__ = ["Journal", "Observer", "Outcome", "StoppedError", "learn"]

_KIND = "session"
_SECONDS_BETWEEN_STEP_EVENTS = 0.25


@dataclass
class Outcome:
    """What a session found."""

    accuracy_matrix: list[list[float]] = field(default_factory=list)
    """R[i][j], the score on task j after task i; NaN where it cannot be had."""
    untrained: list[float] = field(default_factory=list)
    """The scores before anything was learned, for forward transfer; NaN with heads."""
    seconds: float = 0.0
    """Time spent learning and judging, over all resumed parts."""


def learn(
    method: Method,
    tasks: TaskSequence,
    plan: Plan,
    *,
    loss: Loss | None = None,
    score: Score | None = None,
    folder: Path | None = None,
    journal: Journal | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Learn `tasks` one after the other.

    Args:
        method: freshly built; with a checkpoint in `folder` it goes on from there.
        tasks: what to learn.
        plan: how.
        loss: per-example loss; cross-entropy, or squared error for tasks without classes.
        score: per-example score for the matrix; accuracy, or minus the loss.
        folder: where the checkpoint is kept; None: none is. All processes must see the same one.
        journal: where epochs and evaluations are recorded, by the first process.
        observer: told what happens, for display.
    """
    ranks = present()
    session = _Session(method, tasks, plan, loss, score, folder, journal, observer, ranks)
    with own_randomness(plan.seed, session.device, ranks), session.stoppable():
        return session.run()


class _Session:
    def __init__(
        self,
        method: Method,
        tasks: TaskSequence,
        plan: Plan,
        loss: Loss | None,
        score: Score | None,
        folder: Path | None,
        journal: Journal | None,
        observer: Observer | None,
        ranks: Ranks,
    ) -> None:
        self.method, self.tasks, self.plan, self.ranks = method, tasks, plan, ranks
        classifies = tasks[0].classes is not None
        self.loss = loss or (cross_entropy if classifies else squared_error)
        self.score = score or (correct if classifies else self._minus_loss)
        self.folder = folder
        self.audience = Audience(journal, observer) if ranks.is_first else Audience(None, None)
        self.device = next(method.parameters()).device
        self.outcome = Outcome()
        self.loop: TaskLoop | None = None
        self.asked_to_stop = False
        self.last_saved = self.last_told = self.last_counted = time.monotonic()

    # -- the story -------------------------------------------------------------------------

    def run(self) -> Outcome:
        if self.ranks.size > 1 and self.method.noise is not None:
            self.method.noise.stream = self.ranks.rank
        saved = self._find_checkpoint()
        if saved is None:
            self._begin()
        else:
            self._resume(saved)
        if self.ranks.size > 1:
            self._require_alike()
        for index in range(len(self.outcome.accuracy_matrix), len(self.tasks)):
            if self.loop is None:
                self.loop = self._task_loop(index)
            self.audience.tell(
                "task", task=index, name=self.tasks[index].name, epochs=self.plan.epochs
            )
            self._learn_task(self.loop, index)
        self._count_time()
        self.audience.tell("finished", seconds=self.outcome.seconds)
        return self.outcome

    def _require_alike(self) -> None:
        """Processes that begin with different weights would never have the same."""
        sums = [p.detach().double().sum() for p in self.method.parameters()]
        found = self.ranks.gather(torch.stack(sums).nan_to_num())
        if not torch.equal(found, found[:1].expand_as(found)):
            raise TaskError(
                f"The {self.ranks.size} processes begin with different weights. Build the network "
                "and the method alike in all of them: seed torch with the same number first."
            )

    def _begin(self) -> None:
        self.audience.rewind(0)
        self.outcome.untrained = self._scores(learned=0)

    def _learn_task(self, loop: TaskLoop, index: int) -> None:
        while not loop.done:
            self.audience.record("epoch", loop.run_epoch(self._after_step))
            self._pause()
        loop.finish()
        row = self._scores(learned=index + 1)
        self.outcome.accuracy_matrix.append(row)
        self.audience.record("evaluation", {"task": index, "scores": row})
        self.loop = None
        self._save()

    def _task_loop(self, index: int) -> TaskLoop:
        task = self.method.begin_task(self.tasks[index])
        return TaskLoop(self.method, task, self.plan, self.loss, ranks=self.ranks)

    def _scores(self, learned: int) -> list[float]:
        return evaluate_all(self.method, self.tasks, learned, self.score, ranks=self.ranks)

    def _minus_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -self.loss(outputs, targets)

    def _after_step(self, loop: TaskLoop, step: Step, value: Tensor) -> None:
        now = time.monotonic()
        if self.audience.looks_on and now - self.last_told > _SECONDS_BETWEEN_STEP_EVENTS:
            self.last_told = now
            self._tell_step(loop, step, float(value))
        self._pause()

    def _tell_step(self, loop: TaskLoop, step: Step, value: float) -> None:
        with torch.no_grad():
            penalty = float(self.method.penalty(step))
        self.audience.tell(
            "step",
            task=step.task,
            epoch=loop.epoch,
            batch=loop.batch,
            batches=loop.batches,
            loss=value,
            penalty=penalty,
        )

    # -- what lasts ------------------------------------------------------------------------

    def _pause(self) -> None:
        """Stop if any process was asked to, save if it is time to: all of them at once."""
        stop, due = self.ranks.any(self.asked_to_stop, self._due())
        if stop:
            self._stop()
        if due:
            self._save()

    def _due(self) -> bool:
        elapsed = time.monotonic() - self.last_saved
        return self.folder is not None and elapsed >= self.plan.checkpoint_seconds

    def _save(self) -> None:
        if self.folder is None:
            return
        self._count_time()
        random = self.ranks.gather(random_state(self.device))
        if self.ranks.is_first:
            self._write(self.folder, random)
        self.ranks.wait()  # nobody goes on before it is written
        self.last_saved = time.monotonic()
        self.audience.tell("saved", folder=str(self.folder))

    def _write(self, folder: Path, random: Tensor) -> None:
        state = {
            "of": self._fingerprint(),
            "outcome": asdict(self.outcome),
            "loop": None if self.loop is None else self.loop.state(),
            "method": dict(self.method.state_dict()),
            "random": random,
            "events": self.audience.position,
        }
        save(folder / CHECKPOINT_NAME, state, _KIND)

    def _find_checkpoint(self) -> dict[str, Any] | None:
        if self.folder is None or not self._all_see_checkpoint(self.folder):
            return None
        state, note = load_own(self.folder, _KIND, self._fingerprint())
        self.audience.tell("resumed", note=note)
        return state

    def _all_see_checkpoint(self, folder: Path) -> bool:
        there = has_checkpoint(folder)
        seen, missed = self.ranks.any(there, not there)
        if seen and missed:
            raise CheckpointError(
                f"Only some of the {self.ranks.size} processes see a checkpoint in {folder}. Put "
                "the folder where all of them can read it."
            )
        return there

    def _resume(self, state: dict[str, Any]) -> None:
        self.outcome = Outcome(**state["outcome"])
        done = len(self.outcome.accuracy_matrix)
        for task in self.tasks[:done]:  # heads and references to data, as the first time
            self.method.begin_task(task)
        if state["loop"] is not None:
            self.loop = self._task_loop(done)
        self.method.load_state_dict(state["method"])
        if self.loop is not None:
            self.loop.load_state(state["loop"])
        set_random_state(state["random"], self.device, self.ranks)
        self.audience.rewind(state["events"])

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "method": type(self.method).__name__,
            "tasks": f"{self.tasks.name}, {len(self.tasks)} tasks",
            **self.plan.identity(),
        }

    def _count_time(self) -> None:
        now = time.monotonic()
        self.outcome.seconds += now - self.last_counted
        self.last_counted = now

    # -- stopping --------------------------------------------------------------------------

    def stoppable(self) -> AbstractContextManager[None]:
        """Ctrl-C asks for a stop after the present step; a second one does not wait."""
        return nullcontext() if self.folder is None else asked_politely(self._ask)

    def _ask(self) -> None:
        self.asked_to_stop = True

    def _stop(self) -> None:
        self._save()
        raise StoppedError(
            f"Stopped as asked; the state is saved in {self.folder}. The same call (or command) "
            "goes on from there."
        )
