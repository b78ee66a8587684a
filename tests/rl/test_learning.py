"""PPO really learns: Pendulum-v1 in a few thousand steps."""

from __future__ import annotations

import pytest
import torch

from uclearn.methods.registry import build
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import ActorCritic
from uclearn.rl.session import learn

pytestmark = pytest.mark.rl


def test_pendulum_improves_by_five_hundred() -> None:
    """A pendulum that nobody drives earns about -1200 in an episode of 200 steps (-16.3 at worst
    in each), a balanced one about -150. From the first evaluation, after 4,096 of 49,152 steps, to
    the last the mean return rises by at least 500."""
    torch.set_num_threads(1)
    plan = PPOPlan(
        steps_per_task=48 * 1024,
        environments=16,
        workers=1,
        gamma=0.95,
        lr=1e-3,
        renew_every=4,
        evaluation_episodes=10,
    )
    outcome = learn(build("finetuning", ActorCritic(3), None), ["Pendulum-v1"], plan)
    curve = [means[0] for means in outcome.curve()]
    assert curve[0] < -900
    assert curve[-1] > curve[0] + 500, curve
