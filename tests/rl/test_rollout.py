"""What a rollout holds is what happened, and the ratio is 1 while nothing has changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.rl.small import WIDTH, small_method, small_plan
from uclearn.gaussian import GaussianLayer
from uclearn.methods.contract import Method
from uclearn.rl.environments import Environments
from uclearn.rl.normalise import Normaliser
from uclearn.rl.policy import log_probability, view
from uclearn.rl.ppo import losses, minibatches
from uclearn.rl.rollout import (
    Collector,
    RolloutBatch,
    Steps,
    action_losses,
    examples,
    generalised_advantages,
    held,
    standardised,
)
from uclearn.rl.simulators import Transition

pytestmark = pytest.mark.rl

COUNT, LENGTH = 4, 6
PLAN = small_plan(
    steps_per_task=COUNT * LENGTH, environments=COUNT, rollout_steps=LENGTH, minibatch=5
)


class Script:
    """Shows fixed random numbers; environment 1 is cut at step 2, environment 3 falls at 4."""

    observation_size, action_size, count = 3, 1, COUNT

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self.shown: NDArray[np.float32] = chance.normal(size=(LENGTH + 1, COUNT, 3)).astype(
            np.float32
        )
        self.finals = chance.normal(size=(LENGTH + 1, COUNT, 3)).astype(np.float32)
        self.paid = chance.normal(size=(LENGTH + 1, COUNT)).astype(np.float32)
        self.actions: list[NDArray[np.float32]] = []

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.actions = []
        first: NDArray[np.float32] = self.shown[0]
        return first

    def step(self, actions: NDArray[np.float32]) -> Transition:
        self.actions.append(actions.copy())
        now = len(self.actions)
        fell, cut = np.zeros((2, COUNT), np.bool_)
        fell[3], cut[1] = now == 5, now == 3
        finals = np.where((fell | cut)[:, None], self.finals[now], self.shown[now])
        return Transition(self.shown[now], self.paid[now], fell, cut, finals)


def collector(script: Script, **changes: Any) -> Collector:
    normaliser = Normaliser(3)
    normaliser.frozen = True  # as raw: nothing was seen before
    plan = small_plan(**{**PLAN.__dict__, **changes})
    made = Collector(cast(Environments, script), normaliser, 0, WIDTH, plan)
    made.renew(0)
    return made


def chance(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def padded(raw: NDArray[np.float32]) -> Tensor:
    return torch.nn.functional.pad(torch.from_numpy(raw), (0, WIDTH - raw.shape[-1]))


def test_steps_are_what_happened() -> None:
    script, method = Script(), small_method("finetuning", begun=1)
    steps = collector(script).act(method.model, chance())
    assert torch.equal(steps.observations, padded(script.shown[:-1]))
    assert np.array_equal(steps.actions.numpy(), np.stack(script.actions))
    assert steps.terminated.nonzero().tolist() == [[4, 3]]
    assert steps.truncated.nonzero().tolist() == [[2, 1]]
    with torch.no_grad():
        for t in range(LENGTH):
            assert torch.equal(steps.outputs[t], method.model(padded(script.shown[t]), task=0))
    noise = torch.randn(LENGTH, COUNT, 1, generator=chance())
    mean, log_std, _ = view(steps.outputs)
    torch.testing.assert_close(steps.actions, mean + log_std.exp() * noise)


def test_what_follows_a_time_limit_is_the_value_of_the_last_observation() -> None:
    script, method = Script(), small_method("finetuning", begun=1)
    steps = collector(script).act(method.model, chance())
    with torch.no_grad():
        expected = view(method.model(padded(script.shown[1:]).flatten(0, 1), task=0)).value
        expected = expected.view(LENGTH, COUNT).clone()
        last = view(method.model(padded(script.finals[3][1:2]), task=0)).value
    assert not torch.isclose(expected[2, 1], last).any()
    expected[2, 1] = last
    torch.testing.assert_close(steps.following, expected)


@pytest.mark.parametrize("time_limits", ["bootstrap", "terminal"])
def test_examples_hold_what_the_estimate_says(time_limits: Any) -> None:
    plan = small_plan(**{**PLAN.__dict__, "time_limits": time_limits})
    steps = collector(Script()).act(small_method("finetuning", begun=1).model, chance())
    found = examples(steps, plan)
    _, _, values = view(steps.outputs)
    told = generalised_advantages(
        steps.rewards,
        values,
        steps.following,
        steps.terminated,
        steps.truncated,
        time_limits=time_limits,
    )
    assert torch.equal(found.returns, told.returns.flatten())
    torch.testing.assert_close(found.advantages.mean(), torch.tensor(0.0), rtol=0, atol=1e-6)
    ranks = told.advantages.flatten().argsort()
    assert torch.equal(found.advantages.argsort(), ranks)


def ratios(method: Method, steps: Steps, found: RolloutBatch) -> Iterator[Tensor]:
    """Step by step, in the shape in which they were acted."""
    for t in range(LENGTH):
        part = RolloutBatch(*(column[t * COUNT : (t + 1) * COUNT] for column in found))
        yield losses(method.model(steps.observations[t], task=0), part, clip=0.2).ratio


@pytest.mark.parametrize("name", ["finetuning", "ucl"])
@pytest.mark.parametrize("draws", ["forward", "rollout"])
def test_the_ratio_is_one_with_the_same_weights_and_the_same_noise(draws: Any, name: str) -> None:
    method = small_method(name, begun=1)
    acting = collector(Script(), draws=draws)
    with held(method.model, acting.plan):
        before = noise_of(method)
        steps = acting.act(method.model, chance())
        found = examples(steps, acting.plan)
        if draws == "forward":
            rewind(method, before)
        assert all(bool((ratio == 1).all()) for ratio in ratios(method, steps, found))


def test_the_ratio_of_two_draws_is_not_one() -> None:
    method = small_method("ucl", begun=1)
    acting = collector(Script(), draws="forward")
    steps = acting.act(method.model, chance())
    found = examples(steps, acting.plan)
    assert all(bool((ratio != 1).all()) for ratio in ratios(method, steps, found))


def test_a_held_draw_gives_a_first_ratio_of_one_in_shuffled_mini_batches_too() -> None:
    """Up to rounding: the product of matrices may add in another order for another batch."""
    method = small_method("ucl", begun=1)
    acting = collector(Script(), draws="rollout")
    with held(method.model, acting.plan):
        found = acting.collect(method.model, chance())
        for batch in minibatches(found, 5, chance()):
            ratio = losses(method.model(batch.observations, task=0), batch, clip=0.2).ratio
            torch.testing.assert_close(ratio, torch.ones(len(ratio)), rtol=0, atol=1e-5)


def noise_of(method: Method) -> list[int]:
    return [m.noise.drawn for m in method.model.modules() if isinstance(m, GaussianLayer)]


def rewind(method: Method, drawn: list[int]) -> None:
    layers = [m for m in method.model.modules() if isinstance(m, GaussianLayer)]
    for layer, before in zip(layers, drawn, strict=True):
        layer.noise.drawn = before


def test_acting_explores_with_the_weights_too() -> None:
    """In training the same observation is answered anew each time; in evaluation never."""
    script, method = Script(), small_method("ucl", begun=1)
    script.shown[:] = script.shown[:1]
    means = view(collector(script).act(method.model, chance()).outputs).mean
    assert all(not torch.equal(means[0], other) for other in means[1:])
    means = view(collector(script).act(method.model.eval(), chance()).outputs).mean
    assert all(torch.equal(means[0], other) for other in means[1:])


def test_losses_for_importance_are_minus_the_log_probabilities_and_spare_the_critic() -> None:
    method = small_method("finetuning", begun=1)
    found = collector(Script()).collect(method.model, chance())
    told = torch.cat(list(action_losses(method.model, found, task=0, size=7)))
    torch.testing.assert_close(told, -found.log_probabilities)
    told.sum().backward()
    gradients = {name: p.grad for name, p in method.model.named_parameters()}
    assert all(g is None or not g.any() for name, g in gradients.items() if "critic" in name)
    assert all(g is not None and g.any() for name, g in gradients.items() if "actor" in name)


def test_the_policys_own_actions_make_the_fisher_information() -> None:
    """For a Gaussian, E[(d -log pi / d mean)^2] = 1 / variance: what actions drawn by the policy
    give, and no others would."""
    mean = torch.zeros(200_000, 1, requires_grad=True)
    log_std = torch.full((200_000, 1), math.log(0.5))
    actions = 0.5 * torch.randn(200_000, 1, generator=chance())
    (gradient,) = torch.autograd.grad(-log_probability(mean, log_std, actions).sum(), mean)
    assert float(gradient.square().mean()) == pytest.approx(1 / 0.25, rel=0.02)


def column(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def test_an_example_by_hand() -> None:
    """Two steps, a fall, one more step; gamma = lambda = 1/2, so gamma lambda = 1/4.

    surprises: 1 + 1/2*4 - 2 = 1;  2 - 4 = -2 (terminated);  3 + 1/2*8 - 6 = 1
    advantages: 1 + 1/4*(-2) = 1/2;  -2;  1.     returns = advantages + values
    """
    found = generalised_advantages(
        rewards=column(1, 2, 3),
        values=column(2, 4, 6),
        following=column(4, 99, 8),
        terminated=column(0, 1, 0),
        truncated=column(0, 0, 0),
        gamma=0.5,
        smoothing=0.5,
    )
    assert found.advantages.flatten().tolist() == [0.5, -2.0, 1.0]
    assert found.returns.flatten().tolist() == [2.5, 2.0, 7.0]


@pytest.mark.parametrize(("time_limits", "second"), [("bootstrap", 2.0), ("terminal", -2.0)])
def test_a_time_limit_by_hand(time_limits: str, second: float) -> None:
    """The same with a time limit in place of the fall: 2 + 1/2*8 - 4 = 2, or as before."""
    found = generalised_advantages(
        rewards=column(1, 2, 3),
        values=column(2, 4, 6),
        following=column(4, 8, 8),
        terminated=column(0, 0, 0),
        truncated=column(0, 1, 0),
        gamma=0.5,
        smoothing=0.5,
        time_limits=time_limits,  # type: ignore[arg-type]
    )
    assert found.advantages.flatten().tolist() == [1 + second / 4, second, 1.0]


def by_definition(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    smoothing: float,
) -> Tensor:
    """sum over k of (gamma lambda)^k surprise_{t+k}, to the end of t's episode: one sum each."""
    found = torch.zeros_like(rewards)
    steps, environments = rewards.shape
    for environment in range(environments):
        for start in range(steps):
            for t in range(start, steps):
                ended = bool(terminated[t, environment])
                after = 0.0 if ended else gamma * float(following[t, environment])
                surprise = float(rewards[t, environment]) + after - float(values[t, environment])
                found[start, environment] += (gamma * smoothing) ** (t - start) * surprise
                if ended or bool(truncated[t, environment]):
                    break
    return found


@pytest.mark.parametrize("seed", range(5))
def test_against_the_definition(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, values, following = torch.randn(3, 17, 4, generator=generator, dtype=torch.float64)
    fate = torch.rand(17, 4, generator=generator)
    told = (rewards, values, following, fate < 0.1, fate > 0.9)
    found = generalised_advantages(*told, gamma=0.97, smoothing=0.9)
    expected = by_definition(*told, gamma=0.97, smoothing=0.9)
    torch.testing.assert_close(found.advantages, expected, rtol=1e-12, atol=1e-12)


def test_without_smoothing_returns_are_discounted_sums() -> None:
    """lambda = 1 over one whole episode: the critic cancels, R_t = sum of gamma^k r_{t+k}."""
    rewards = torch.randn(9, 1, dtype=torch.float64)
    values = torch.randn(10, 1, dtype=torch.float64)
    ends = torch.zeros(9, 1)
    ends[-1] = 1
    nothing = torch.zeros(9, 1)
    found = generalised_advantages(
        rewards, values[:-1], values[1:], ends, nothing, gamma=0.9, smoothing=1.0
    )
    expected = math.fsum(0.9**k * float(rewards[k]) for k in range(9))
    assert float(found.returns[0]) == pytest.approx(expected, rel=1e-12)


def test_standardised() -> None:
    found = standardised(torch.tensor([[1.0, 3.0], [5.0, 7.0]]), epsilon=0.0)
    assert float(found.mean()) == pytest.approx(0.0, abs=1e-7)
    assert float(found.square().mean()) == pytest.approx(1.0)
    assert bool((standardised(torch.ones(3, 2)) == 0).all())
