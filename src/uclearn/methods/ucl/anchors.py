"""What UCL remembers of each layer, and how firmly it holds the layer to it.

A `LayerAnchor` remembers one layer as the previous task left it. Layers that are held to what their
nodes say are in `outputs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.layers import softplus_inverse
from uclearn.methods.ucl.rules import Start
from uclearn.penalties import Grip


class Term(NamedTuple):
    """A part of the penalty: the parameters that it is on, its value, its gradients."""

    parameters: Sequence[nn.Parameter]
    value: Tensor
    gradients: Sequence[Tensor]


class AnchoredParameter(NamedTuple):
    """A parameter of a layer (or its uncertainties), and what the previous task left of it."""

    held_by: LayerAnchor
    trained: str
    """Name of the layer's parameter; uncertainties are `rho`, with sigma = softplus(rho)."""
    left: str
    """Name of the anchor's buffer; uncertainties are kept as `sigma`."""
    grip: Grip | None = None
    """How firmly it is held; None for uncertainties, which have a term of their own."""

    @property
    def parameter(self) -> nn.Parameter:
        """As it is now."""
        parameter: nn.Parameter = getattr(self.held_by.layer, self.trained)
        return parameter

    @property
    def anchor(self) -> Tensor:
        """As the previous task left it."""
        anchor: Tensor = getattr(self.held_by, self.left)
        return anchor


class LayerAnchor(nn.Module):
    """The memory of one layer: its weights as the previous task left them.

    The layer itself is only referred to; it belongs to the model.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, or it would be registered here too
        self.names: dict[str, str] = {}
        """By the name of what is held of the layer the name of the buffer that remembers it."""
        for name, parameter in layer.named_parameters(recurse=False):
            if self.holds(name):
                kept = name if name in ("weight", "bias") else f"left_{name}"
                self.names[name] = kept
                self.register_buffer(kept, parameter.detach().clone())
        self.anchored: list[AnchoredParameter] = []

    @property
    def layer(self) -> nn.Module:
        """The layer that is held."""
        return self._layer[0]

    def holds(self, name: str) -> bool:
        """Whether that parameter of the layer is held."""
        return name in ("weight", "bias")

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma' of each node that the layer makes."""
        raise NotImplementedError

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Work out how firmly each parameter is held; the result is in `anchored`.

        Args:
            arriving: (input features,) strength of the nodes that feed each input.
            upper_freeze: whether weights are held by those, too.
            drift: weight of eq. (4).
            freeze: weight of eq. (5), None for off.
        """
        self.anchored = []
        for name, node, source in self.squared_strengths(arriving.square()):
            upper = source * drift if upper_freeze and source is not None else None
            grip = Grip(node * drift, upper, None if freeze is None else node * freeze)
            self.anchored.append(AnchoredParameter(self, name, self.names[name], grip))

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """For each parameter its name, the squared strength of the nodes that it belongs to, and of
        those that feed it (None: biases); `arriving` is squared, too."""
        raise NotImplementedError

    def blocks(self, tensor: Tensor) -> Tensor:
        """A view of something shaped like a parameter, over which its grip broadcasts."""
        return tensor

    def sigmas(self) -> list[AnchoredParameter]:
        """The uncertainties that the layer has."""
        return []

    def output_term(self, scale: float) -> Term | None:
        """Eq. (4) measured by what the nodes say, times `scale`; None: it is not measured so."""
        return None

    def add_output_gradients(self, scale: float) -> None:
        """The gradients of `output_term`, added to what the parameters have."""

    @torch.no_grad()
    def remember(self) -> None:
        """Keep the weights as they are now."""
        for name, kept in self.names.items():
            self.get_buffer(kept).copy_(getattr(self.layer, name))


class GaussianAnchor(LayerAnchor):
    """A Gaussian layer: weights, biases and the uncertainty of its nodes."""

    weight: Tensor
    bias: Tensor
    sigma: Tensor
    sigma_bias: Tensor
    initial: Tensor

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.register_buffer("sigma", layer.sigma.detach().clone())
        if layer.sigma_bias is not None:
            self.register_buffer("sigma_bias", layer.sigma_bias.detach().clone())
        self.register_buffer("initial", layer.sigma.detach()[0].clone())
        self.even = 1.0
        """What the outputs' eq. (4) is multiplied by (`uclearn.methods.ucl.rules.evened`)."""

    @property
    def layer(self) -> GaussianLayer:
        """The layer that is held."""
        layer = self._layer[0]
        assert isinstance(layer, GaussianLayer)
        return layer

    def start(self) -> Start:
        """Where the layer started."""
        return Start(float(self.initial), self.layer.inputs_last(self.weight)[0, 0].numel())

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma'."""
        return self.initial / self.sigma

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Weights are held by the stronger of both nodes, biases by their own."""
        node = self.layer.over_nodes(self.strength().square())
        yield "weight", node, self.layer.over_sources(arriving)
        if "bias" in self._buffers:
            sigma = self.sigma if self.layer.sigma_bias is None else self.sigma_bias
            yield "bias", (self.initial / sigma).square(), None

    def blocks(self, tensor: Tensor) -> Tensor:
        """Weights as their layer sees them; biases as they are."""
        return self.layer.blocks(tensor) if tensor.dim() > 1 else tensor

    def sigmas(self) -> list[AnchoredParameter]:
        """Of its nodes, and of its biases where those are noisy."""
        names = (("rho", "sigma"), ("rho_bias", "sigma_bias"))
        return [AnchoredParameter(self, *pair) for pair in names if pair[1] in self._buffers]

    @torch.no_grad()
    def be_as_certain(self, strength: Tensor) -> None:
        """Give the layer's nodes a sigma that was not learned.

        Args:
            strength: (nodes,) sigma_init / sigma.
        """
        rho = [softplus_inverse(sigma) for sigma in (self.initial / strength).tolist()]
        for each in (self.layer.rho, self.layer.rho_bias):
            if each is not None:
                # by its data: a loop may be between its forward and its backward pass
                each.data.copy_(torch.tensor(rho))

    @torch.no_grad()
    def remember(self) -> None:
        """Keep weights and uncertainties."""
        super().remember()
        self.sigma.copy_(self.layer.sigma)
        if self.layer.sigma_bias is not None:
            self.sigma_bias.copy_(self.layer.sigma_bias)


class NormAnchor(LayerAnchor):
    """A normalisation: its scale and shift belong to the nodes that arrive, like their biases; and
    any module whose own parameters belong to no node that is known.

    Args:
        layer: the module.
        only: the names of what is held of it, by default everything of its own.
    """

    def __init__(self, layer: nn.Module, only: Iterable[str] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        super().__init__(layer)

    def holds(self, name: str) -> bool:
        """Whatever was asked for."""
        return self._only is None or name in self._only

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Scale and shift are held with the strength of their own feature, others by that of all
        features on average."""
        for name, kept in self.names.items():
            anchor = self.get_buffer(kept)
            fits = arriving.numel() == anchor.numel()
            yield name, arriving.view_as(anchor) if fits else arriving.mean(), None


def exact(tensor: Tensor) -> Tensor:
    """In single precision at least: squares of small differences are lost in half of it."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
