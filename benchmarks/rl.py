"""Acting against the bare simulator, and PPO's mini-batch with UCL against fine-tuning's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.timing import Bar, Case, best_times
from uclearn.methods.registry import Settings, build
from uclearn.rl.environments import Environments
from uclearn.rl.normalise import Normaliser
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import ActorCritic
from uclearn.rl.ppo import make_optimizer, update
from uclearn.rl.rollout import Collector, RolloutBatch
from uclearn.rl.simulators import Spaces
from uclearn.rl.tasks import tasks_of

TASK = "HopperBulletEnv-v0"
SPACES = {TASK: Spaces(15, 3, (-1.0,) * 3, (1.0,) * 3)}
WIDTH = 44
_STEPS = 16
UCL: Settings = {
    "ucl": {
        "hold": "weights",
        "sigma": 0.06,
        "beta": 5e-6,
        "lr_sigma": None,
        "sampling": "weight",
        "closed_form": True,
    }
}


def measure() -> Iterator[Bar]:
    """Both bars."""
    torch.set_num_threads(1)
    yield from _measure_update()
    yield from _measure_rollout()


def _measure_rollout() -> Iterator[Bar]:
    """128 environments in 2 workers, a few steps at a time: with UCL's network, and without."""
    plan = PPOPlan(rollout_steps=_STEPS)
    method = build("ucl", ActorCritic(WIDTH), torch.zeros(1, WIDTH), UCL)
    method.begin_task(tasks_of([TASK], SPACES)[0])
    chance = torch.Generator().manual_seed(0)
    with Environments(TASK, count=plan.environments, workers=plan.workers) as environments:
        size = environments.observation_size
        collector = Collector(environments, Normaliser(size), 0, WIDTH, plan)
        actions = np.random.default_rng(0).normal(size=(_STEPS, plan.environments, 3))

        def bare() -> None:
            for action in actions.astype(np.float32):
                environments.step(action)

        collector.renew(0)
        times = best_times(
            {"bare": bare, "acting": lambda: collector.collect(method.model, chance)},
            rounds=15,
            repeats=1,
        )
    each = {name: seconds / _STEPS * 1e3 for name, seconds in times.items()}
    detail = f"{each['acting']:.2f} ms against {each['bare']:.2f} ms per step of 128"
    yield Bar("Rollout with UCL, Hopper", times["acting"] / times["bare"], 1.25, detail)


def _measure_update() -> Iterator[Bar]:
    plan = PPOPlan(environments=16, epochs=1)
    cases = {"finetuning": _update("finetuning", {}, plan), "ucl": _update("ucl", UCL, plan)}
    times = best_times(cases, rounds=20, repeats=1)
    each = {name: seconds / plan.minibatches * 1e3 for name, seconds in times.items()}
    detail = f"{each['ucl']:.2f} ms against {each['finetuning']:.2f} ms"
    yield Bar("PPO mini-batch, UCL", each["ucl"] / each["finetuning"], 1.25, detail)


def _update(name: str, settings: Settings, plan: PPOPlan) -> Case:
    """An epoch over a small rollout of a second task, so that all terms of the penalty are on."""
    method = build(name, ActorCritic(WIDTH), torch.zeros(1, WIDTH), settings)
    method.begin_task(tasks_of([TASK], SPACES)[0])
    method.end_task()
    optimizer = make_optimizer(method, plan)
    chance = torch.Generator().manual_seed(0)
    count = plan.rollout_size
    rollout = RolloutBatch(
        torch.randn(count, WIDTH, generator=chance),
        torch.randn(count, 3, generator=chance),
        *torch.randn(4, count, generator=chance).unbind(),
    )
    rollout = rollout._replace(log_probabilities=rollout.log_probabilities * 0.1 - 4.0)
    return lambda: update(method, rollout, 0, plan, optimizer, chance)
