"""Term (b) and eq. (6): the loop over nodes, autograd, and where they are least."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles import spread_by_loop
from uclearn.penalties import spread, spread_and_gradient, spread_gradient

sigmas = st.floats(1e-3, 10.0)
pairs = st.lists(st.tuples(sigmas, sigmas), min_size=1, max_size=6)


def columns(nodes: list[tuple[float, float]]) -> tuple[Tensor, Tensor]:
    sigma, previous = torch.tensor(nodes, dtype=torch.float64).unbind(1)
    return sigma, previous


@settings(max_examples=100)
@given(nodes=pairs, inflate=st.booleans())
def test_value_and_gradient_are_the_loop_over_nodes(
    nodes: list[tuple[float, float]], inflate: bool
) -> None:
    sigma, previous = columns(nodes)
    expected, slope = spread_by_loop(sigma.tolist(), previous.tolist(), inflate)
    value, gradient = spread_and_gradient(sigma, previous, inflate=inflate)
    torch.testing.assert_close(value.item(), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, torch.tensor(slope).double(), rtol=1e-6, atol=1e-6)
    assert torch.equal(spread_gradient(sigma, previous, inflate=inflate), gradient)
    assert torch.equal(spread(sigma, previous, inflate=inflate), value)


@settings(max_examples=50)
@given(nodes=pairs, inflate=st.booleans(), factor=st.sampled_from([1.0, 65536.0, 0.03]), rho=sigmas)
def test_the_gradient_is_that_of_autograd_on_the_formula(
    nodes: list[tuple[float, float]], inflate: bool, factor: float, rho: float
) -> None:
    """Through softplus too, as a layer's rho sees it."""
    start, previous = columns(nodes)
    gradients = []
    for closed in (True, False):
        free = (start.log() - rho).requires_grad_()
        sigma = torch.nn.functional.softplus(free)
        if closed:
            value = spread(sigma, previous, inflate=inflate)
        else:
            ratio = (sigma / previous) ** 2
            value = (ratio - ratio.log()).sum() / 2
            if inflate:
                value = value + (sigma**2 - (sigma**2).log()).sum() / 2
        (factor * value).backward()
        gradients.append(free.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-8, atol=1e-8 * factor)


@pytest.mark.parametrize("inflate", [True, False])
def test_gradcheck(inflate: bool) -> None:
    sigma = (0.1 + torch.rand(5, dtype=torch.float64)).requires_grad_()
    previous = 0.1 + torch.rand(5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: spread(s, previous, inflate=inflate), sigma)


@given(before=sigmas)
def test_least_at_the_root_of_two_over_one_plus_the_inverse_variance(before: float) -> None:
    """argmin = sqrt(2 / (1/sigma'^2 + 1)): the slope is 0 there and the value larger elsewhere."""
    previous = torch.tensor([before], dtype=torch.float64)
    least = (2 / (1 / previous**2 + 1)).sqrt()
    slope = spread_gradient(least, previous)
    assert abs(slope.item()) <= 1e-12 * (2 / least.item())
    lowest = spread(least, previous)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert spread(factor * least, previous) > lowest


@given(before=st.floats(1e-4, 0.05))
def test_for_small_sigma_the_minimiser_is_near_root_two_times_the_previous(before: float) -> None:
    least = math.sqrt(2 / (1 / before**2 + 1))
    assert least == pytest.approx(math.sqrt(2) * before, rel=before**2)


@given(before=sigmas)
def test_without_inflation_a_node_is_best_left_as_certain_as_it_was(before: float) -> None:
    previous = torch.tensor([before], dtype=torch.float64)
    assert abs(spread_gradient(previous, previous, inflate=False).item()) <= 1e-12 / before
    lowest = spread(previous, previous, inflate=False)
    assert lowest.item() == pytest.approx(0.5)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert spread(factor * previous, previous, inflate=False) > lowest
