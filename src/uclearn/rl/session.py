"""A whole sequence of tasks: learned by acting, judged on the way, saved, resumed where it stood.

A simulator cannot be saved. So every `renew_every` iterations, where every task seen so far is
judged and a checkpoint is written, all environments begin anew, from a seed that follows from the
run's seed, the task and the iteration; this is done in every run, interrupted or not, and counted
in iterations, never in seconds. The episodes that are cut there count as cut by a time limit: what
would have followed is estimated by the critic. All other chance follows from seeds and counters
too. So a run that was killed at any moment and started again by the same call goes on from the last
such place, repeats what came after it, and ends bit for bit as one that was never interrupted. A
polite stop (Ctrl-C, SIGTERM) goes by the same rule: at most `renew_every` iterations are repeated.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uclearn.methods.contract import Method, lent
from uclearn.rl.environments import Environments, survey
from uclearn.rl.judge import Judge
from uclearn.rl.normalise import Normaliser
from uclearn.rl.outcome import Evaluation, Outcome
from uclearn.rl.plan import PPOPlan
from uclearn.rl.ppo import decay, make_optimizer, update
from uclearn.rl.rollout import Collector, Examples, action_losses, held
from uclearn.rl.tasks import checked_width, tasks_of, widest
from uclearn.storage.checkpoint import CHECKPOINT_NAME, has_checkpoint, load_own, save
from uclearn.storage.telling import Audience, Journal, Observer, StoppedError, asked_politely
from uclearn.tasks import Task
from uclearn.tasks.data import generator

__all__ = ["Evaluation", "Outcome", "StoppedError", "learn"]

_KIND = "reinforcement learning"


def learn(
    method: Method,
    sequence: Sequence[str],
    plan: PPOPlan,
    *,
    folder: Path | None = None,
    journal: Journal | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Learn the environments of `sequence` one after the other.

    Args:
        method: freshly built around an `ActorCritic` that is wide enough (see `widest`); with a
            checkpoint in `folder` it goes on from there.
        sequence: names of environments, such as `uclearn.rl.catalogue.sequence("classic")`.
        plan: how.
        folder: where the checkpoint is kept; None: none is.
        journal: where iterations and evaluations are recorded.
        observer: told what happens, for display: task, step, iteration, evaluation, saved,
            resumed, finished.
    """
    # a layer of the user's own may draw from torch's generator: it is seeded, then given back
    with (
        torch.random.fork_rng(devices=[]),
        _Session(method, sequence, plan, folder, journal, observer) as session,
        session.stoppable(),
    ):
        torch.manual_seed(plan.seed)
        return session.run()


class _Session:
    def __init__(
        self,
        method: Method,
        sequence: Sequence[str],
        plan: PPOPlan,
        folder: Path | None,
        journal: Journal | None,
        observer: Observer | None,
    ) -> None:
        self.method, self.plan = method, plan
        self.folder, self.audience = folder, Audience(journal, observer)
        self.spaces = survey(sequence)
        self.width = checked_width(method, widest(sequence, self.spaces))
        self.tasks = tasks_of(sequence, self.spaces)
        self.index = self.iteration = 0
        """The task being learned, and iterations of it that are done."""
        self.optimizer: torch.optim.Adam | None = None
        self.normalisers: list[Normaliser] = []
        self.outcome = Outcome()
        self.asked_to_stop = False
        self.judge = Judge(self.width, plan)
        self.last_counted = time.monotonic()

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.judge.close()

    # -- the story -------------------------------------------------------------------------

    def run(self) -> Outcome:
        saved = self._find_checkpoint()
        if saved is not None:
            self._resume(saved)
        else:
            self.audience.rewind(0)
        while self.index < len(self.tasks):
            self._learn_task(self.tasks[self.index])
        self._count_time()
        self.audience.tell("finished", seconds=self.outcome.seconds)
        return self.outcome

    def _learn_task(self, task: Task) -> None:
        plan = self.plan
        if self.optimizer is None:
            self._begin_task(task)
            self._save()
        self.audience.tell("task", task=task.index, name=task.name, iterations=plan.iterations)
        with Environments(task.name, count=plan.environments, workers=plan.workers) as environments:
            collector = Collector(
                environments, self.normalisers[task.index], task.index, self.width, plan
            )
            while self.index == task.index:
                self._learn_block(collector, task)

    def _learn_block(self, collector: Collector, task: Task) -> None:
        """From one checkpoint to the next."""
        collector.renew(self._seed("environments", task.index, self.iteration))
        end = min(self.iteration + self.plan.renew_every, self.plan.iterations)
        while self.iteration < end:
            self._obey()
            self._iterate(collector, task)
        if end == self.plan.iterations:
            self._end_task(collector, task)
        self._judge(task)
        if end == self.plan.iterations:
            self.index, self.iteration = self.index + 1, 0
        self._save()

    def _begin_task(self, task: Task) -> None:
        self.method.begin_task(task)
        self.optimizer = make_optimizer(self.method, self.plan)
        size = self.spaces[task.name].observation_size
        self.normalisers.append(Normaliser(size, discount=self.plan.gamma))

    def _iterate(self, collector: Collector, task: Task) -> None:
        assert self.optimizer is not None
        begin = time.monotonic()
        decay(self.optimizer, self.iteration, self.plan.iterations)
        chance = self._chance("actions", task.index, self.iteration)
        order = self._chance("order", task.index, self.iteration)
        self.method.train()
        with held(self.method.model, self.plan):
            rollout = collector.collect(self.method.model, chance)
            found = update(self.method, rollout, task.index, self.plan, self.optimizer, order)
        self.iteration += 1
        returns = [episode.return_ for episode in collector.environments.finished()]
        self.audience.record(
            "iteration",
            {
                "task": task.index,
                "iteration": self.iteration,
                "steps": self._steps(),
                "episodes": len(returns),
                "return": sum(returns) / len(returns) if returns else float("nan"),
                **asdict(found),
            },
        )
        self._tell_step(task, time.monotonic() - begin)

    def _end_task(self, collector: Collector, task: Task) -> None:
        """Consolidate, by what the finished policy does with its mean weights."""
        self.normalisers[task.index].frozen = True
        model = self.method.model
        with lent(model):
            collector.renew(self._seed("consolidation", task.index, 0))
            chance = self._chance("consolidation", task.index, 0)
            parts = [
                collector.collect(model, chance) for _ in range(self.plan.consolidation_rollouts)
            ]
            fresh = Examples(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

            def losses() -> Iterable[Tensor]:
                return action_losses(model, fresh, task.index)

            self.method.end_task(task, losses, inputs=fresh.observations.split(512))
        self.optimizer = None

    # -- how well --------------------------------------------------------------------------

    def _judge(self, task: Task) -> None:
        returns = [
            self.judge.returns(
                self.method, seen, normaliser, self._seed("evaluation", seen.index, 0)
            )
            for seen, normaliser in zip(self.tasks, self.normalisers, strict=False)
        ]
        evaluation = Evaluation(task.index, self.iteration, self._steps(), returns)
        self.outcome.evaluations.append(evaluation)
        self.audience.record("evaluation", {**asdict(evaluation), "means": evaluation.means()})

    # -- seeds -----------------------------------------------------------------------------

    def _chance(self, purpose: str, task: int, iteration: int) -> torch.Generator:
        return generator(self.plan.seed, f"{purpose} of task {task}, iteration {iteration}")

    def _seed(self, purpose: str, task: int, iteration: int) -> int:
        text = f"{purpose} of task {task}, iteration {iteration}: {self.plan.seed}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1

    # -- what lasts ------------------------------------------------------------------------

    def _save(self) -> None:
        if self.folder is None:
            return
        self._count_time()
        state = {
            "of": self._fingerprint(),
            "outcome": asdict(self.outcome),
            "index": self.index,
            "iteration": self.iteration,
            "method": dict(self.method.state_dict()),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "normalisers": [normaliser.state() for normaliser in self.normalisers],
            "random": torch.get_rng_state(),
            "events": self.audience.position,
        }
        save(self.folder / CHECKPOINT_NAME, state, _KIND)
        self.audience.tell("saved", folder=str(self.folder))

    def _find_checkpoint(self) -> dict[str, Any] | None:
        if self.folder is None or not has_checkpoint(self.folder):
            return None
        state, note = load_own(self.folder, _KIND, self._fingerprint())
        self.audience.tell("resumed", note=note)
        return state

    def _resume(self, state: dict[str, Any]) -> None:
        told = state["outcome"]
        evaluations = [Evaluation(**one) for one in told["evaluations"]]
        self.outcome = Outcome(evaluations, told["seconds"])
        self.index, self.iteration = state["index"], state["iteration"]
        begun = len(state["normalisers"])
        for task in self.tasks[:begun]:
            self._begin_task(task)
        for normaliser, kept in zip(self.normalisers, state["normalisers"], strict=True):
            normaliser.load_state(kept)
        self.method.load_state_dict(state["method"])
        if state["optimizer"] is None:
            self.optimizer = None
        elif self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.audience.rewind(state["events"])

    def _fingerprint(self) -> dict[str, Any]:
        settings = {k: v for k, v in asdict(self.plan).items() if k != "workers"}
        return {
            "method": type(self.method).__name__,
            "tasks": ", ".join(task.name for task in self.tasks),
            "width": self.width,
            **settings,
        }

    def _count_time(self) -> None:
        now = time.monotonic()
        self.outcome.seconds += now - self.last_counted
        self.last_counted = now

    def _steps(self) -> int:
        return (self.index * self.plan.iterations + self.iteration) * self.plan.rollout_size

    # -- who is told -----------------------------------------------------------------------

    def _tell_step(self, task: Task, seconds: float) -> None:
        done = self.index * self.plan.iterations + self.iteration
        self.audience.tell(
            "step",
            task=task.index,
            iteration=self.iteration,
            iterations=self.plan.iterations,
            steps=self._steps(),
            steps_per_second=self.plan.rollout_size / max(seconds, 1e-9),
            progress=done / (len(self.tasks) * self.plan.iterations),
        )

    # -- stopping --------------------------------------------------------------------------

    def stoppable(self) -> AbstractContextManager[None]:
        """A first Ctrl-C or SIGTERM asks for a stop after the iteration; a second does not wait."""
        if self.folder is None:
            return nullcontext()
        return asked_politely(self._ask, (signal.SIGINT, signal.SIGTERM))

    def _ask(self) -> None:
        self.asked_to_stop = True

    def _obey(self) -> None:
        if not self.asked_to_stop:
            return
        repeated = self.iteration % self.plan.renew_every
        raise StoppedError(
            f"Stopped as asked; the state is saved in {self.folder}. The same call (or command) "
            f"goes on from there. Iterations that it will repeat: {repeated}, since a simulator "
            "cannot be saved."
        )
