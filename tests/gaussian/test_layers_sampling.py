"""What the noise of weights does to outputs, in mean and covariance, over many draws.

The theory is exact: outputs are linear in the weights, so over draws of the weights all outputs of
a batch have the covariance J Sigma J^T. `"weight"` must have all of it (noise is shared over the
batch and over positions), `"local"` its diagonal (each output on its own).

Every estimate must lie within six standard errors of the theory. Of the tens of thousands that are
compared, normal ones would lie within five and covariances, whose tails are longer, within six;
seeds are fixed, so that a failure is a change of the code.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.gaussian.cases import (
    Case,
    both_schemes,
    every_case,
    exact_or_noisy_bias,
    gaussian,
)
from tests.oracles import output_covariance
from uclearn.gaussian import GaussianLayer, NoiseKind, Sampling

DRAWS = 1000
STANDARD_ERRORS = 6.0


@torch.no_grad()
def many_draws(layer: GaussianLayer, input: Tensor, batched: bool) -> Tensor:
    """(draws, outputs). Under `"local"` the copies of a batch within one pass are as many draws."""
    if layer.sampling == "local" and batched:
        copies: Tensor = layer(input.repeat(DRAWS, *[1] * (input.dim() - 1)))
        return copies.reshape(DRAWS, -1).double()
    return torch.stack([layer(input).flatten() for _ in range(DRAWS)]).double()


def assert_moments(outputs: Tensor, mean: Tensor, covariance: Tensor) -> None:
    """Estimated mean and covariance against the true ones, in standard errors:
    sqrt(Var/n) for a mean, sqrt((Var_a Var_b + Cov_ab^2) / n) for a covariance."""
    count, variance = len(outputs), covariance.diagonal()
    centred = outputs - mean
    noisy = variance > 0
    torch.testing.assert_close(  # outputs without noise are exact in every draw
        centred[:, ~noisy], torch.zeros_like(centred[:, ~noisy]), rtol=0, atol=1e-5
    )
    deviation = centred.mean(0)[noisy] / (variance[noisy] / count).sqrt()
    assert deviation.abs().max() < STANDARD_ERRORS
    error = ((variance[:, None] * variance + covariance.square()) / count).sqrt()
    difference = (centred.T @ centred / count - covariance).abs()
    both = noisy[:, None] & noisy
    assert (difference[both] / error[both]).max() < STANDARD_ERRORS


@pytest.mark.slow
@every_case
@both_schemes
@pytest.mark.parametrize(
    ("noisy_bias", "kind"),
    [(False, "fresh"), (True, "table")],
    ids=["exact-bias-fresh", "noisy-bias-table"],
)
def test_mean_and_covariance_of_the_outputs_agree_with_theory(
    case: Case, sampling: Sampling, noisy_bias: bool, kind: NoiseKind
) -> None:
    plain, input = case.plain(), case.input()
    layer = gaussian(plain, sampling, noisy_bias, kind)
    sigma_bias = None if layer.sigma_bias is None else layer.sigma_bias.detach()
    covariance = output_covariance(plain, input, layer.sigma.detach(), sigma_bias)
    if sampling == "local":
        covariance = covariance.diagonal().diag()
    assert (covariance.diagonal() > 0).any()
    mean = plain(input).detach().double().flatten()
    assert_moments(many_draws(layer, input, case.batched), mean, covariance)


@pytest.mark.parametrize(
    ("plain", "shape"),
    [(nn.Linear(6, 4), (1, 6)), (nn.Conv2d(3, 4, 3, padding=1), (1, 3, 4, 4))],
    ids=["linear", "conv2d"],
)
@exact_or_noisy_bias
def test_weight_sampling_gives_equal_examples_equal_noise(
    plain: nn.Module, shape: tuple[int, ...], noisy_bias: bool
) -> None:
    """Covariance = variance: in every single draw."""
    layer = gaussian(plain, "weight", noisy_bias)
    twice = torch.randn(shape).repeat_interleave(2, dim=0)
    first, second = layer(twice)
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, plain(twice)[0])


@pytest.mark.parametrize(
    ("plain", "shape"),
    [(nn.Linear(6, 4), (1, 6)), (nn.Conv2d(3, 4, 3, padding=1), (1, 3, 4, 4))],
    ids=["linear", "conv2d"],
)
@exact_or_noisy_bias
def test_local_sampling_gives_equal_examples_independent_noise(
    plain: nn.Module, shape: tuple[int, ...], noisy_bias: bool
) -> None:
    """One pass over 20,000 copies of an example: neighbours are uncorrelated, and the variance is
    the theory's within 5 % (five standard errors of sqrt(2/20000))."""
    layer, example, count = gaussian(plain, "local", noisy_bias), torch.randn(shape), 20_000
    sigma_bias = None if layer.sigma_bias is None else layer.sigma_bias.detach()
    variance = output_covariance(plain, example, layer.sigma.detach(), sigma_bias).diagonal()
    with torch.no_grad():
        noise = (layer(example.repeat(count, *[1] * (len(shape) - 1))) - plain(example)).flatten(1)
    torch.testing.assert_close(noise.double().var(0), variance, rtol=0.05, atol=0)
    scaled = noise.double() / variance.sqrt()
    correlation = (scaled[::2] * scaled[1::2]).mean(0)
    assert correlation.abs().max() < 5 / (count / 2) ** 0.5


@both_schemes
def test_padding_of_an_embedding_is_never_noisy(sampling: Sampling) -> None:
    layer = gaussian(nn.Embedding(5, 3, padding_idx=2), sampling)
    output = layer(torch.tensor([[2, 0], [4, 2]]))
    assert not output[0, 0].any()
    assert not output[1, 1].any()
    assert output[0, 1].all()


@both_schemes
def test_every_forward_pass_draws_anew(sampling: Sampling) -> None:
    layer, x = gaussian(nn.Linear(5, 3), sampling), torch.randn(2, 5)
    assert not torch.equal(layer(x), layer(x))
