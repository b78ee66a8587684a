"""A scalar with a known gradient composes like any other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from uclearn.errors import UclearnError
from uclearn.penalties import drift, known_gradient, spread


def cubes(x: Tensor) -> Tensor:
    """sum x^3 with the gradient 3 x^2."""
    fixed = x.detach()
    return known_gradient((fixed**3).sum(), [x], [3 * fixed**2])


def start() -> Tensor:
    return torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)


SLOPE = torch.tensor([3.0, 12.0, 27.0], dtype=torch.float64)


@pytest.mark.parametrize("factor", [1.0, 0.0, -1.0, 1 / 256, 65536.0])
def test_the_gradient_follows_the_factor(factor: float) -> None:
    x = start()
    (factor * cubes(x)).backward()
    torch.testing.assert_close(x.grad, factor * SLOPE)


def test_a_scaled_and_unscaled_step_is_the_plain_step() -> None:
    """What a gradient scaler does: multiply the loss, divide the gradients in place."""
    x = start()
    loss = x.sin().sum() + cubes(x)
    (loss * 1024.0).backward()
    assert x.grad is not None
    x.grad.div_(1024.0)
    torch.testing.assert_close(x.grad, x.detach().cos() + SLOPE)


def test_backward_twice_gives_twice_the_gradient() -> None:
    x = start()
    loss = cubes(x)
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * SLOPE)


def test_backward_twice_beside_another_loss() -> None:
    x = start()
    loss = x.sin().sum() + cubes(x) + 2 * cubes(x)
    for _ in range(2):
        loss.backward(retain_graph=True)
    torch.testing.assert_close(x.grad, 2 * (x.detach().cos() + 3 * SLOPE))


def test_changing_gradients_in_place_does_not_reach_the_penalty() -> None:
    """As clipping does between two backward passes over one graph."""
    x = start()
    loss = cubes(x)
    loss.backward(retain_graph=True)
    assert x.grad is not None
    x.grad.mul_(0.01)
    x.grad = None
    loss.backward()
    torch.testing.assert_close(x.grad, SLOPE)


def test_micro_batches_accumulate() -> None:
    """Four quarters of the penalty, each backwards on its own, are one whole."""
    x = start()
    for _ in range(4):
        (cubes(x) / 4).backward()
    torch.testing.assert_close(x.grad, SLOPE)


def test_several_parameters_and_one_without_gradient() -> None:
    x, y, z = start(), start(), start()
    known_gradient(torch.tensor(1.0), [x, y, z], [SLOPE, None, 2 * SLOPE]).backward()
    torch.testing.assert_close(x.grad, SLOPE)
    assert y.grad is None
    torch.testing.assert_close(z.grad, 2 * SLOPE)


def test_a_frozen_parameter_gets_none() -> None:
    x, frozen = start(), start().detach()
    known_gradient(torch.tensor(1.0), [x, frozen], [SLOPE, SLOPE]).backward()
    torch.testing.assert_close(x.grad, SLOPE)
    assert frozen.grad is None


def test_the_value_is_a_copy() -> None:
    x, value = start(), torch.tensor(5.0, dtype=torch.float64)
    scalar = known_gradient(value, [x], [SLOPE])
    value.zero_()
    assert scalar.item() == 5.0


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    """The gradient is a constant to autograd; treating it so would lose the curvature."""
    mean, anchor = torch.randn(2, 3, dtype=torch.float64)
    mean.requires_grad_()
    loss = drift(mean, anchor, torch.ones(3).double()) * 2 + mean.pow(4).sum()
    (slope,) = torch.autograd.grad(loss, mean, create_graph=True)
    torch.testing.assert_close(slope.detach(), (2 * (mean - anchor) + 4 * mean**3).detach())
    with pytest.raises(UclearnError, match="can be differentiated once, not twice"):
        slope.sum().backward()


def test_penalties_compose_through_other_functions() -> None:
    """log(1 + drift) * spread, by the product and chain rules."""
    mean = torch.tensor([[3.0, 1.0]], dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    anchor, node = torch.ones(1, 2).double(), torch.tensor([[2.0]]).double()
    previous = torch.tensor([0.25]).double()
    (drift(mean, anchor, node).log1p() * spread(sigma, previous)).backward()
    # drift = 1/2 (2 * 2)^2 = 8, its slope 4 * (2, 0);
    # spread = 1/2 (4 - log 4 + 1/4 + log 4) = 17/8, its slope 0.5/0.0625 - 2/0.5 + 0.5 = 4.5
    expected = torch.tensor([[8.0, 0.0]]).double() / 9 * 17 / 8
    torch.testing.assert_close(mean.grad, expected)
    torch.testing.assert_close(sigma.grad, torch.tensor([9.0]).double().log() * 4.5)
