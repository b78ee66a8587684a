"""The divergence of two diagonal Gaussians, against torch.distributions and autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from uclearn.penalties import add_kl_gradients, kl, kl_and_gradients

Four = tuple[Tensor, Tensor, Tensor, Tensor]


def gaussians(shape: tuple[int, ...], seed: int = 0) -> Four:
    generator = torch.Generator().manual_seed(seed)
    mean, spread, prior, prior_spread = torch.randn(
        4, *shape, generator=generator, dtype=torch.float64
    )
    return mean, 2 * spread - 3, prior, 2 * prior_spread - 3


def by_torch(
    mean: Tensor, log_variance: Tensor, prior: Tensor, prior_log_variance: Tensor
) -> Tensor:
    now = Normal(mean, (log_variance / 2).exp())
    before = Normal(prior, (prior_log_variance / 2).exp())
    total: Tensor = kl_divergence(now, before).sum()
    return total


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 2, 3, 3), (1,)])
def test_value_and_gradients_are_those_of_torch_distributions(shape: tuple[int, ...]) -> None:
    four = gaussians(shape)
    expected_of = four[0].clone().requires_grad_(), four[1].clone().requires_grad_()
    expected = by_torch(*expected_of, four[2], four[3])
    expected.backward()
    found_of = four[0].clone().requires_grad_(), four[1].clone().requires_grad_()
    found = kl(*found_of, four[2], four[3])
    (3 * found).backward()
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(found_of, expected_of, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, 3 * theirs.grad)


def test_it_is_exactly_zero_where_the_two_agree() -> None:
    """Right after a task the penalty must not push at all: no rounding is left over."""
    mean, log_variance, _, _ = (t.float() for t in gaussians((50,)))
    value, gradients = kl_and_gradients(mean, log_variance, mean.clone(), log_variance.clone())
    assert value.item() == 0.0
    assert all(gradient.count_nonzero() == 0 for gradient in gradients)


def test_it_grows_with_the_square_of_a_small_change() -> None:
    """KL(N(m + h, v) || N(m, v)) = h^2 / 2v, and for the logarithm of v about h^2 / 4, down to
    changes that single precision can hardly tell from none."""
    m, log_variance = torch.zeros(1), torch.full((1,), -6.0)
    moved = kl(m + 1e-6, log_variance, m, log_variance)
    torch.testing.assert_close(moved, torch.tensor(1e-12 / 2) * torch.tensor(6.0).exp())
    widened = kl(m, torch.tensor([1e-3]), m, torch.zeros(1))
    torch.testing.assert_close(widened, torch.tensor(1e-6 / 4), rtol=1e-3, atol=0)


def test_gradients_added_in_place_are_the_same() -> None:
    four = gaussians((6, 3), seed=1)
    _, expected = kl_and_gradients(*four)
    start = [torch.randn_like(t) for t in four[:2]]
    found = (start[0].clone(), start[1].clone())
    add_kl_gradients(found, *four, scale=0.25)
    for ours, before, theirs in zip(found, start, expected, strict=True):
        torch.testing.assert_close(ours, before + theirs / 4)


def test_what_goes_in_is_left_alone() -> None:
    four = gaussians((5,))
    before = [t.clone() for t in four]
    kl(*four)
    add_kl_gradients((torch.zeros(5).double(), torch.zeros(5).double()), *four)
    assert all(torch.equal(a, b) for a, b in zip(four, before, strict=True))
