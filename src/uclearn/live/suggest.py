"""A strength without future data: chosen on the first tasks alone, within a budget of runs.

A part of each task is held out; every run learns the tasks one after the other without it and is
then judged by it: mean accuracy over the tasks (for numbers, minus the mean loss). All candidates
run once. Then the better half runs again with another part held out and other seeds, then the
better half of those, until the budget is spent: what is good is looked at more closely.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

import torch
from torch import nn

from uclearn.errors import SettingError
from uclearn.live.canaries import right_answers, share_right
from uclearn.live.learner import Learner
from uclearn.live.new_data import NewData, as_data
from uclearn.measures.statistics import probability_above_zero
from uclearn.methods.losses import Loss, squared_error
from uclearn.methods.registry import METHODS, facts, keywords, parts
from uclearn.tasks import Data, Task, hold_out
from uclearn.tasks.data import generator
from uclearn.training.loop import validation_loss
from uclearn.training.plan import Plan

Choices = Mapping[str, Sequence[Any]]
"""By setting the values to try; every combination is a candidate."""


@dataclass(frozen=True)
class Tried:
    """A candidate and how it did."""

    settings: Mapping[str, Any]
    scores: tuple[float, ...] = ()
    """One for each repeat."""

    @property
    def mean(self) -> float:
        """Over its repeats."""
        return fmean(self.scores)


@dataclass(frozen=True)
class Suggestion:
    """The best settings, and how sure that is."""

    settings: dict[str, Any]
    score: float
    """Their mean score on what was held out."""
    without: float
    """The score of fine-tuning in the first repeat: whether the method does anything at all."""
    runner_up: dict[str, Any]
    margin: float
    """By how much the best is ahead of the second, mean over the repeats that both have."""
    margin_error: float
    """The standard error of that; infinite with a single repeat."""
    sure: float
    """How probable it is that the best is truly better than the second (Student's t on the paired
    differences). The best of many was chosen by these very numbers, so this is a little rosy."""
    runs: int
    """Spent."""
    edges: tuple[str, ...]
    """Settings whose best value is the smallest or largest that was tried: try beyond it."""
    tried: tuple[Tried, ...] = field(repr=False)
    """All candidates, the best first: those with most repeats, then by their mean."""

    def __str__(self) -> str:
        chosen, second = _words(self.settings), _words(self.runner_up)
        return (
            f"{chosen}: score {self.score:.3f} on held-out data of the first tasks, "
            f"{self.without:.3f} with nothing against forgetting. Ahead of {second} by "
            f"{self.margin:.3f} (standard error {self.margin_error:.3f}): truly better with a "
            f"probability of {self.sure:.0%}. {self.runs} runs, {len(self.tried)} candidates."
            + (f" At the edge of what was tried: {', '.join(self.edges)}." if self.edges else "")
        )


def suggest(
    model: nn.Module,
    tasks: Sequence[NewData],
    method: str = "ucl",
    *,
    runs: int = 24,
    choices: Choices | None = None,
    plan: Plan | None = None,
    loss: Loss | None = None,
    held_out: float = 0.2,
    seed: int = 0,
    **settings: Any,
) -> Suggestion:
    """Settings for a `Learner`, from the first tasks alone.

    Args:
        model: the plain network, as for `Learner`; left as it is.
        tasks: the data of the first tasks, in order; two or more.
        method: as for `Learner`.
        runs: the budget. Each run learns all of `tasks` once.
        choices: by setting the values to try; None: those that the method names
            in its facts. More candidates than the budget has room for are thinned out at random.
        plan: how to train.
        loss: as for `Learner`.
        held_out: the share of each task's examples that judges.
        seed: of what is held out, and of the order of data and noise.
        settings: of the method, the same in all runs.
    """
    data = [as_data(task, f"tasks[{k}]") for k, task in enumerate(tasks)]
    _check(data, runs)
    learning = _Runs(model, data, method, plan or Plan(), loss, held_out, seed, settings)
    candidates = _candidates(_choices(method, choices), runs - 1, seed)
    without = replace(learning, method="finetuning", settings={}).score({}, 0)
    done = [Tried(one) for one in candidates]
    left = runs - 1
    for repeat in itertools.count():
        running = min(len(done) if repeat == 0 else max(2, math.ceil(len(done) / 2**repeat)), left)
        if running < 2:
            break
        done = [
            replace(one, scores=(*one.scores, learning.score(one.settings, repeat)))
            if place < running
            else one
            for place, one in enumerate(done)
        ]
        left -= running
        done.sort(key=lambda one: (-len(one.scores), -one.mean))
    return _judged(done, without, runs - left)


@dataclass(frozen=True)
class _Runs:
    model: nn.Module
    data: Sequence[Data]
    method: str
    plan: Plan
    loss: Loss | None
    held_out: float
    seed: int
    settings: Mapping[str, Any]

    def score(self, candidate: Mapping[str, Any], repeat: int) -> float:
        """Learn all tasks one after the other, then look at what was held out of each."""
        seed = self.seed + repeat
        own = {**self.settings, **candidate}
        if "seed" in keywords(parts(self.method)[0]):
            own.setdefault("seed", seed)
        plan = replace(self.plan, seed=seed)
        learner = Learner(self.model, self.method, plan=plan, loss=self.loss, **own)
        judging = []
        for index, whole in enumerate(self.data):
            train, valid = hold_out(whole, self.held_out, seed, f"suggest {index}")
            learner.learn(train, str(index))
            judging.append(replace(valid, task=index))
        return fmean(self._judged(learner, valid, k) for k, valid in enumerate(judging))

    def _judged(self, learner: Learner, valid: Data, index: int) -> float:
        if learner.tasks[str(index)].classes is not None:
            return share_right(right_answers(learner.method, valid, index))
        with learner.method.inference(index) as network, torch.no_grad():
            task = Task(str(index), index, valid)
            return -validation_loss(network, task, self.loss or squared_error)


def _judged(done: Sequence[Tried], without: float, spent: int) -> Suggestion:
    best, second = done[0], done[1]
    pairs = list(zip(best.scores, second.scores, strict=False))
    gaps = [ours - theirs for ours, theirs in pairs]
    margin = fmean(gaps)
    error = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
    return Suggestion(
        settings=dict(best.settings),
        score=best.mean,
        without=without,
        runner_up=dict(second.settings),
        margin=margin,
        margin_error=error,
        sure=probability_above_zero(margin, error, len(gaps) - 1),
        runs=spent,
        edges=tuple(name for name in best.settings if _at_edge(name, best, done)),
        tried=tuple(done),
    )


def _at_edge(name: str, best: Tried, done: Sequence[Tried]) -> bool:
    values = {one.settings[name] for one in done}
    numbers = all(isinstance(value, int | float) for value in values)
    return numbers and len(values) > 2 and best.settings[name] in (min(values), max(values))


def _choices(method: str, choices: Choices | None) -> Choices:
    own = parts(method)[0]
    if choices is not None:
        return choices
    if not facts(own).tried:
        known = [name for name in METHODS.sound()[0] if facts(name).tried]
        raise SettingError(
            f"`choices` must say what to try for {own}, as {{'strength': [1.0, 10.0]}}. Without it "
            f"there is something to try for {', '.join(known)}."
        )
    return facts(own).tried


def _candidates(choices: Choices, room: int, seed: int) -> list[dict[str, Any]]:
    every = [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]
    if len(every) < 2:
        raise SettingError(
            f"`choices` must hold at least two candidates to choose from, got {len(every)}."
        )
    if len(every) <= room:
        return every
    order = torch.randperm(len(every), generator=generator(seed, "suggest")).tolist()
    return [every[place] for place in sorted(order[: max(2, room // 2)])]


def _check(data: Sequence[Data], runs: int) -> None:
    if len(data) < 2:
        raise SettingError(
            f"`tasks` must hold the data of at least two tasks, got {len(data)}. With one there is "
            "nothing yet that could be forgotten."
        )
    if runs < 3:
        raise SettingError(
            f"`runs` must be at least 3, got {runs}: one with nothing against forgetting, and two "
            "to be compared."
        )


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
