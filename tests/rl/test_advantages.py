"""Generalised advantage estimation, by hand and against its definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from uclearn.rl.advantages import generalised_advantages, standardised


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
