"""A scalar whose gradient is known without differentiating.

The penalties of continual learning have gradients as simple as themselves. Computing value and
gradient together, in place, is several times cheaper than letting autograd record and replay every
step, and the result still composes with any loop: it is an ordinary differentiable scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from uclearn.errors import UclearnError


class _OnceOnly(Function):
    """Passes a gradient on, but not the gradient of that gradient: autograd takes it for a
    constant, so without this the curvature of the penalty would silently be missing."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> None:
        raise UclearnError(
            "A penalty with a closed-form gradient can be differentiated once, not twice. "
            "Differentiate the loss without the penalty for second derivatives."
        )


class _KnownGradient(Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, gradients: Sequence[Tensor | None], *parameters: Tensor
    ) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (factor,) = upstream
        # a loss is usually differentiated with factor 1; asking costs nothing on a CPU
        unscaled = factor.device.type == "cpu" and factor.item() == 1.0
        scaled = (
            gradient if gradient is None or unscaled else gradient * factor
            for gradient in ctx.gradients
        )
        if torch.is_grad_enabled():  # with create_graph=True
            scaled = (None if g is None else _once_only(g) for g in scaled)
        return None, None, *scaled


def _once_only(gradient: Tensor) -> Tensor:
    passed: Tensor = _OnceOnly.apply(gradient.detach().requires_grad_())  # type: ignore[no-untyped-call]
    return passed


def known_gradient(
    value: Tensor, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> Tensor:
    """`value` as a function of `parameters` with the given gradients.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> square = known_gradient((x.detach() ** 2).sum(), [x], [2 * x.detach()])
    >>> (3 * square).backward()
    >>> x.grad
    tensor([ 6., 12.])
    """
    scalar: Tensor = _KnownGradient.apply(value, gradients, *parameters)  # type: ignore[no-untyped-call]
    return scalar
