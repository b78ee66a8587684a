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
from contextlib import closing
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uclearn.methods.contract import Method, lent
from uclearn.rl.environments import Environments, survey
from uclearn.rl.evaluate import Evaluation, Evaluator, RewardOutcome
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan
from uclearn.rl.ppo import decay, make_optimizer, update
from uclearn.rl.rollout import Collector, RolloutBatch, action_losses, held
from uclearn.rl.tasks import checked_width, tasks_of, widest
from uclearn.session import EventSink, Journal, Observer, Session, StoppedError
from uclearn.tasks import Task
from uclearn.tasks.data import generator

__all__ = ["Evaluation", "RewardOutcome", "StoppedError", "learn"]


def learn(
    method: Method,
    sequence: Sequence[str],
    plan: PPOPlan,
    *,
    folder: Path | None = None,
    journal: Journal | None = None,
    observer: Observer | None = None,
) -> RewardOutcome:
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
    work = _Learning(method, sequence, plan)
    events = EventSink(journal, observer)
    signals = (signal.SIGINT, signal.SIGTERM)
    with closing(work.evaluator):
        Session(work, folder, events, seed=plan.seed, stop_signals=signals).run()
    return work.outcome


class _Learning:
    """Task after task, from one renewal of the environments to the next: the work of a session."""

    kind = "reinforcement learning"

    def __init__(self, method: Method, sequence: Sequence[str], plan: PPOPlan) -> None:
        self.method, self.plan = method, plan
        self.spaces = survey(sequence)
        self.width = checked_width(method, widest(sequence, self.spaces))
        self.tasks = tasks_of(sequence, self.spaces)
        self.index = self.iteration = 0
        """The task being learned, and iterations of it that are done."""
        self.optimizer: torch.optim.Adam | None = None
        self.normalisers: list[Normaliser] = []
        self.outcome = RewardOutcome()
        self.evaluator = Evaluator(self.width, plan)

    @property
    def done(self) -> bool:
        return self.index == len(self.tasks)

    def begin(self) -> None:
        """Nothing is measured before the first step."""

    def advance(self, session: Session) -> None:
        """One task, or what is left of it."""
        task, plan = self.tasks[self.index], self.plan
        if self.optimizer is None:
            self._begin_task(task)
            session.save()
        session.events.tell("task", task=task.index, name=task.name, iterations=plan.iterations)
        with Environments(task.name, count=plan.environments, workers=plan.workers) as environments:
            collector = Collector(
                environments, self.normalisers[task.index], task.index, self.width, plan
            )
            while self.index == task.index:
                self._learn_block(collector, task, session)

    def _learn_block(self, collector: Collector, task: Task, session: Session) -> None:
        """From one checkpoint to the next."""
        collector.renew(self._seed("environments", task.index, self.iteration))
        end = min(self.iteration + self.plan.renew_every, self.plan.iterations)
        while self.iteration < end:
            self._stop_if_asked(session)
            self._iterate(collector, task, session.events)
        if end == self.plan.iterations:
            self._end_task(collector, task)
        self._judge(task, session.events)
        if end == self.plan.iterations:
            self.index, self.iteration = self.index + 1, 0
        session.save()

    def _stop_if_asked(self, session: Session) -> None:
        if session.asked_to_stop:
            repeated = self.iteration % self.plan.renew_every
            raise session.stopped(
                f" Iterations that it will repeat: {repeated}, since a simulator cannot be saved."
            )

    def _begin_task(self, task: Task) -> None:
        self.method.begin_task(task)
        plan = self.plan
        self.method.task_steps = plan.iterations * plan.epochs * plan.minibatches
        self.optimizer = make_optimizer(self.method, self.plan)
        size = self.spaces[task.name].observation_size
        self.normalisers.append(Normaliser(size, discount=self.plan.gamma))

    def _iterate(self, collector: Collector, task: Task, events: EventSink) -> None:
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
        events.record(
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
        seconds = time.monotonic() - begin
        done = self.index * self.plan.iterations + self.iteration
        events.tell(
            "step",
            task=task.index,
            iteration=self.iteration,
            iterations=self.plan.iterations,
            steps=self._steps(),
            steps_per_second=self.plan.rollout_size / max(seconds, 1e-9),
            progress=done / (len(self.tasks) * self.plan.iterations),
        )

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
            fresh = RolloutBatch(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

            def losses() -> Iterable[Tensor]:
                return action_losses(model, fresh, task.index)

            self.method.end_task(task, losses, inputs=fresh.observations.split(512))
        self.optimizer = None

    # -- how well --------------------------------------------------------------------------

    def _judge(self, task: Task, events: EventSink) -> None:
        returns = [
            self.evaluator.returns(
                self.method, seen, normaliser, self._seed("evaluation", seen.index, 0)
            )
            for seen, normaliser in zip(self.tasks, self.normalisers, strict=False)
        ]
        evaluation = Evaluation(task.index, self.iteration, self._steps(), returns)
        self.outcome.evaluations.append(evaluation)
        events.record("evaluation", {**asdict(evaluation), "means": evaluation.means()})

    # -- seeds -----------------------------------------------------------------------------

    def _chance(self, purpose: str, task: int, iteration: int) -> torch.Generator:
        return generator(self.plan.seed, f"{purpose} of task {task}, iteration {iteration}")

    def _seed(self, purpose: str, task: int, iteration: int) -> int:
        text = f"{purpose} of task {task}, iteration {iteration}: {self.plan.seed}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1

    # -- what lasts ------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        settings = {k: v for k, v in asdict(self.plan).items() if k != "workers"}
        return {
            "method": type(self.method).__name__,
            "tasks": ", ".join(task.name for task in self.tasks),
            "width": self.width,
            **settings,
        }

    def state(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "iteration": self.iteration,
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "normalisers": [normaliser.state() for normaliser in self.normalisers],
        }

    def load(self, state: dict[str, Any]) -> None:
        found = state["outcome"]
        evaluations = [Evaluation(**one) for one in found["evaluations"]]
        self.outcome = RewardOutcome(evaluations, found["seconds"])
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

    def _steps(self) -> int:
        return (self.index * self.plan.iterations + self.iteration) * self.plan.rollout_size
