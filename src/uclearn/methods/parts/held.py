"""What UCL remembers of one layer, and how firmly it holds the layer to it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer
from uclearn.penalties import Grip


class Bond(NamedTuple):
    """One parameter of a layer, and how firmly it is held to its anchor."""

    held: Held
    layer: nn.Module
    name: str
    grip: Grip

    @property
    def parameter(self) -> nn.Parameter:
        """As it is now."""
        parameter: nn.Parameter = getattr(self.layer, self.name)
        return parameter

    @property
    def anchor(self) -> Tensor:
        """As the previous task left it."""
        anchor: Tensor = getattr(self.held, self.name)
        return anchor


class Spread(NamedTuple):
    """The uncertainties of a layer, and those that the previous task left."""

    held: HeldLayer
    layer: GaussianLayer
    of: str
    """Of `sigma` (the weights') or of `sigma_bias`."""
    by: str
    """`rho` or `rho_bias`, which is trained."""

    @property
    def rho(self) -> nn.Parameter:
        """As it is now: sigma = softplus(rho)."""
        rho: nn.Parameter = getattr(self.layer, self.by)
        return rho

    @property
    def previous(self) -> Tensor:
        """The sigma that the previous task left."""
        previous: Tensor = getattr(self.held, self.of)
        return previous


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
        self.bonds: list[Bond] = []

    @property
    def layer(self) -> nn.Module:
        """The layer that is held."""
        return self._layer[0]

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

    def blocks(self, tensor: Tensor) -> Tensor:
        """A view of something shaped like a parameter, over which its grip broadcasts."""
        return tensor

    def spreads(self) -> list[Spread]:
        """The uncertainties that the layer has."""
        return []

    @torch.no_grad()
    def remember(self) -> None:
        """Keep the weights as they are now."""
        for name, anchor in self.named_buffers(recurse=False):
            if name in ("weight", "bias"):
                anchor.copy_(getattr(self.layer, name))


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
        self.bonds = [Bond(self, self.layer, "weight", Grip(over_nodes * drift, source, press))]
        if "bias" in dict(self.named_buffers()):
            exact = self.layer.sigma_bias is None
            own = (self.initial / (self.sigma if exact else self.sigma_bias)).square()
            grip = Grip(own * drift, None, None if freeze is None else own * freeze)
            self.bonds.append(Bond(self, self.layer, "bias", grip))

    def blocks(self, tensor: Tensor) -> Tensor:
        """Weights as their layer sees them; biases as they are."""
        return self.layer.blocks(tensor) if tensor.dim() > 1 else tensor

    def spreads(self) -> list[Spread]:
        """Of its nodes, and of its biases where those are noisy."""
        names = (("sigma", "rho"), ("sigma_bias", "rho_bias"))
        return [Spread(self, self.layer, of, by) for of, by in names if of in self._buffers]

    @torch.no_grad()
    def remember(self) -> None:
        """Keep weights and uncertainties."""
        super().remember()
        self.sigma.copy_(self.layer.sigma)
        if self.layer.sigma_bias is not None:
            self.sigma_bias.copy_(self.layer.sigma_bias)


class HeldNorm(Held):
    """A normalisation: its scale and shift belong to the nodes that arrive, like their biases."""

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Held with the strength of the feature itself."""
        self.bonds = []
        for name, anchor in self.named_buffers(recurse=False):
            own = arriving.square().view_as(anchor)
            grip = Grip(own * drift, None, None if freeze is None else own * freeze)
            self.bonds.append(Bond(self, self.layer, name, grip))


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient, made if it has none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
