"""The penalty that EWC, SI, MAS and RWalk share, and the forms it comes in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from uclearn.penalties import (
    add_quadratic_gradient,
    quadratic,
    quadratic_and_gradient,
    quadratic_value,
)
from uclearn.sizes import WEIGHT_PIECE

Springs = tuple[list[Tensor], list[Tensor], list[Tensor]]

SHAPES = [(3, 4), (5,), (2, 3, 2, 2), ()]
LARGE = [(WEIGHT_PIECE // 100 + 3, 250), (WEIGHT_PIECE + 7,), (3,)]
"""More than one piece each, the last one smaller; and a small one."""


def springs(shapes: list[tuple[int, ...]]) -> Springs:
    """Weights, anchors, importances."""
    weights = [torch.randn(shape, dtype=torch.double) for shape in shapes]
    anchors = [torch.randn(shape, dtype=torch.double) for shape in shapes]
    return weights, anchors, [torch.rand(shape, dtype=torch.double) for shape in shapes]


def by_autograd(held: Springs, strength: float) -> tuple[Tensor, list[Tensor]]:
    weights = [weight.clone().requires_grad_() for weight in held[0]]
    value = sum(
        (strength / 2 * (importance * (weight - anchor) ** 2).sum())
        for weight, anchor, importance in zip(weights, *held[1:], strict=True)
    )
    assert isinstance(value, Tensor)
    return value.detach(), list(torch.autograd.grad(value, weights))


def test_the_gradient_is_that_of_the_value() -> None:
    weights, anchors, importances = springs(SHAPES)

    def value(*moving: Tensor) -> Tensor:
        return quadratic(moving, anchors, importances, 0.7)

    assert torch.autograd.gradcheck(value, [weight.requires_grad_() for weight in weights])


@pytest.mark.parametrize("shapes", [SHAPES, LARGE])
def test_all_forms_agree_with_the_formula(shapes: list[tuple[int, ...]]) -> None:
    held = springs(shapes)
    expected, slopes = by_autograd(held, 0.7)
    value, gradients = quadratic_and_gradient(*held, 0.7)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients, slopes)
    torch.testing.assert_close(quadratic_value(*held, 0.7), expected)
    torch.testing.assert_close(quadratic(*held, 0.7), expected)
    present = [torch.randn_like(weight) for weight in held[0]]
    added = [gradient.clone() for gradient in present]
    add_quadratic_gradient(added, *held, 0.7)
    torch.testing.assert_close(added, [p + s for p, s in zip(present, slopes, strict=True)])


def test_at_the_anchor_there_is_neither_value_nor_pull() -> None:
    """Exactly: no rounding may be left over from adding and taking away."""
    weights, _, importances = springs(SHAPES)
    value, gradients = quadratic_and_gradient(weights, [w.clone() for w in weights], importances)
    assert value == 0
    assert not any(gradient.any() for gradient in gradients)
    present = [torch.randn_like(weight) for weight in weights]
    added = [gradient.clone() for gradient in present]
    add_quadratic_gradient(added, weights, [w.clone() for w in weights], importances, 1e6)
    assert all(torch.equal(a, p) for a, p in zip(added, present, strict=True))


def test_weights_that_do_not_lie_in_order_in_memory() -> None:
    held = springs([(2, 3, 2, 2)])
    expected, slopes = by_autograd(held, 1.0)
    weights, anchors, importances = (
        [tensor.to(memory_format=torch.channels_last) for tensor in tensors] for tensors in held
    )
    value, gradients = quadratic_and_gradient(weights, anchors, importances)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients, slopes)


def test_the_value_alone_has_no_gradient() -> None:
    weights, anchors, importances = springs(SHAPES)
    assert not quadratic_value(
        [w.requires_grad_() for w in weights], anchors, importances
    ).requires_grad
