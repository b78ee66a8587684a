"""Eq. (3) of the paper: where the two penalties come from."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from uclearn.penalties import drift, spread

sizes = st.integers(1, 7)


@settings(max_examples=50)
@given(out=sizes, inputs=sizes, seed=st.integers(0, 1000))
def test_with_a_sigma_for_each_weight_they_add_up_to_the_divergence(
    out: int, inputs: int, seed: int
) -> None:
    """KL(N(mean, sigma^2) || N(anchor, sigma'^2)) summed over weights is

        1/2 ||(mean - anchor) / sigma'||^2                             `drift`, strength 1/sigma'
      + 1/2 sum [ (sigma/sigma')^2 - log (sigma/sigma')^2 ]            `spread` without eq. (6)
      - 1/2 per weight,                                                the constant (3) leaves out

    and so are the gradients for mean and sigma.
    """
    generator = torch.Generator().manual_seed(seed)
    mean, anchor = torch.randn(2, out, inputs, generator=generator, dtype=torch.float64)
    sigma, previous = 0.05 + torch.rand(2, out, inputs, generator=generator, dtype=torch.float64)
    mean.requires_grad_()
    sigma.requires_grad_()

    divergence = kl_divergence(Normal(mean, sigma), Normal(anchor, previous)).sum()
    ours = drift(mean, anchor, node=1 / previous) + spread(
        sigma.flatten(), previous.flatten(), inflate=False
    )
    torch.testing.assert_close(ours - 0.5 * mean.numel(), divergence)
    expected = torch.autograd.grad(divergence, (mean, sigma))
    torch.testing.assert_close(torch.autograd.grad(ours, (mean, sigma)), expected)


def test_with_one_sigma_per_node_the_divergence_counts_every_weight_of_the_node() -> None:
    """Tied sigmas: the second part of (3) comes once per weight, the paper's term once per node."""
    mean, anchor = torch.randn(2, 4, 3, dtype=torch.float64)
    sigma, previous = 0.1 + torch.rand(2, 4, 1, dtype=torch.float64)
    tied = Normal(mean, sigma.expand(4, 3)), Normal(anchor, previous.expand(4, 3))
    ours = drift(mean, anchor, 1 / previous) + 3 * spread(sigma, previous, inflate=False)
    torch.testing.assert_close(ours - 0.5 * 12, kl_divergence(*tied).sum())
