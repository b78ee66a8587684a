"""How fast a policy acts and learns in each environment, tried on a small scale."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from uclearn.methods.contract import Method
from uclearn.rl.environments import Environments, survey
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan
from uclearn.rl.ppo import make_optimizer, update
from uclearn.rl.rollout import Collector, held
from uclearn.rl.tasks import checked_width, tasks_of, widest

_ENVIRONMENTS, _TRIES = 16, 2
"""Fewer than a plan's, since starting them takes longer than a rollout; the faster try counts."""


def seconds_per_step(method: Method, sequence: Sequence[str], plan: PPOPlan) -> list[float]:
    """Of each environment in turn, what one step costs: acting, and learning from it. Judging is
    not in it.

    Args:
        method: freshly built around a policy that is wide enough for `sequence`.
        sequence: names of environments.
        plan: how they would be learned.
    """
    count = min(_ENVIRONMENTS, plan.environments)
    rollout = count * plan.rollout_steps
    small = replace(
        plan,
        environments=count,
        workers=1,
        steps_per_task=rollout,
        minibatch=min(plan.minibatch_size, rollout),
        minibatch_is="size",
    )
    spaces = survey(sequence)
    width = checked_width(method, widest(sequence, spaces))
    found = []
    for task in tasks_of(sequence, spaces):
        method.begin_task(task)
        method.task_steps = plan.iterations * plan.epochs * plan.minibatches
        normaliser = Normaliser(spaces[task.name].observation_size, discount=plan.gamma)
        with Environments(task.name, count=count, workers=1) as environments:
            collector = Collector(environments, normaliser, task.index, width, small)
            collector.renew(seed=0)
            times = [_iteration(method, collector, small) for _ in range(_TRIES)]
        found.append(min(times) / rollout)
    return found


def _iteration(method: Method, collector: Collector, plan: PPOPlan) -> float:
    optimizer, chance = make_optimizer(method, plan), torch.Generator().manual_seed(0)
    method.train()
    begin = time.perf_counter()
    with held(method.model, plan):
        rollout = collector.collect(method.model, chance)
        update(method, rollout, collector.task, plan, optimizer, chance)
    return time.perf_counter() - begin
