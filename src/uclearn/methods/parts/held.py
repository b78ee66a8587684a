"""What UCL remembers of one layer, and how firmly it holds the layer to it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer
from uclearn.penalties import (
    Grip,
    add_hold_gradient,
    hold,
    spread_and_gradient,
    spread_gradient,
)

Term = tuple[Tensor, Tensor, Tensor]
"""(parameter, value of the penalty on it, gradient)"""


class Held(nn.Module):
    """The memory of one layer: its weights as the previous task left them.

    The layer itself is only referred to; it belongs to the model.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, or it would be registered here too
        for name, parameter in layer.named_parameters(recurse=False):
            if name in ("weight", "bias"):
                self.register_buffer(name, parameter.detach().clone())
        self._grips: list[tuple[str, Grip]] = []

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma' of each node that the layer makes."""
        raise NotImplementedError

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Work out the grips.

        Args:
            arriving: (input features,) strength of the nodes that feed each input.
            upper_freeze: whether weights are held by those, too.
            drift: weight of eq. (4).
            freeze: weight of eq. (5), None for off.
        """
        raise NotImplementedError

    def terms(self, scale: float, beta: float, inflate: bool) -> Iterator[Term]:
        """Every penalised parameter with the value and the gradient of its penalty; under
        no_grad, as is `add_gradients`."""
        for parameter, mean, anchor, grip in self._grasped():
            value, gradient = hold(mean, anchor, grip, scale)
            yield parameter, value, gradient.view_as(parameter)

    def add_gradients(self, scale: float, beta: float, inflate: bool) -> None:
        """The same gradients, added to what the parameters have."""
        for parameter, mean, anchor, grip in self._grasped():
            gradient = self._blocks(gradient_of(parameter))
            add_hold_gradient(gradient, mean, anchor, grip, scale)

    @torch.no_grad()
    def remember(self) -> None:
        """Keep the weights as they are now."""
        for name, anchor in self.named_buffers(recurse=False):
            if name in ("weight", "bias"):
                anchor.copy_(getattr(self._layer[0], name))

    def _grasped(self) -> Iterator[tuple[nn.Parameter, Tensor, Tensor, Grip]]:
        for name, grip in self._grips:
            parameter, anchor = getattr(self._layer[0], name), getattr(self, name)
            if parameter.requires_grad:
                yield parameter, self._blocks(parameter), self._blocks(anchor), grip

    def _blocks(self, tensor: Tensor) -> Tensor:
        return tensor


class HeldLayer(Held):
    """A Gaussian layer: weights, biases and the uncertainty of its nodes."""

    sigma: Tensor
    sigma_bias: Tensor
    initial: Tensor

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.register_buffer("sigma", layer.sigma.detach().clone())
        if layer.sigma_bias is not None:
            self.register_buffer("sigma_bias", layer.sigma_bias.detach().clone())
        self.register_buffer("initial", layer.sigma.detach()[0].clone())

    @property
    def layer(self) -> GaussianLayer:
        """The layer that is held."""
        layer = self._layer[0]
        assert isinstance(layer, GaussianLayer)
        return layer

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma'."""
        return self.initial / self.sigma

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Weights by the stronger of both nodes, biases by their own."""
        node = self.strength().square()
        over_nodes = self.layer.over_nodes(node)
        source = self.layer.over_sources(arriving.square()) * drift if upper_freeze else None
        press = None if freeze is None else over_nodes * freeze
        self._grips = [("weight", Grip(over_nodes * drift, source, press))]
        if "bias" in dict(self.named_buffers()):
            exact = self.layer.sigma_bias is None
            own = (self.initial / (self.sigma if exact else self.sigma_bias)).square()
            grip = Grip(own * drift, None, None if freeze is None else own * freeze)
            self._grips.append(("bias", grip))

    def terms(self, scale: float, beta: float, inflate: bool) -> Iterator[Term]:
        """Weights and biases, then the uncertainties: d/d rho = d/d sigma * sigmoid(rho)."""
        yield from super().terms(scale, beta, inflate)
        for rho, sigma, previous in self._spreads():
            value, gradient = spread_and_gradient(sigma, previous, inflate=inflate)
            factor = beta * scale
            yield rho, value * factor, gradient * rho.sigmoid() * factor

    def add_gradients(self, scale: float, beta: float, inflate: bool) -> None:
        """In place, for weights, biases and uncertainties."""
        super().add_gradients(scale, beta, inflate)
        for rho, sigma, previous in self._spreads():
            gradient = spread_gradient(sigma, previous, inflate=inflate)
            gradient_of(rho).addcmul_(gradient, rho.sigmoid(), value=beta * scale)

    @torch.no_grad()
    def remember(self) -> None:
        """Keep weights and uncertainties."""
        super().remember()
        self.sigma.copy_(self.layer.sigma)
        if self.layer.sigma_bias is not None:
            self.sigma_bias.copy_(self.layer.sigma_bias)

    def _spreads(self) -> Iterator[tuple[nn.Parameter, Tensor, Tensor]]:
        if self.layer.rho.requires_grad:
            yield self.layer.rho, self.layer.sigma, self.sigma
        rho, sigma = self.layer.rho_bias, self.layer.sigma_bias
        if rho is not None and sigma is not None and rho.requires_grad:
            yield rho, sigma.detach(), self.sigma_bias

    def _blocks(self, tensor: Tensor) -> Tensor:
        return self.layer.blocks(tensor) if tensor.dim() > 1 else tensor


class HeldNorm(Held):
    """A normalisation: its scale and shift belong to the nodes that arrive, like their biases."""

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Held with the strength of the feature itself."""
        self._grips = []
        for name, anchor in self.named_buffers(recurse=False):
            own = arriving.square().view_as(anchor)
            grip = Grip(own * drift, None, None if freeze is None else own * freeze)
            self._grips.append((name, grip))


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient, made if it has none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
