"""Layers that are held to what their nodes say to what they have been given."""

from __future__ import annotations

import torch
from torch import Tensor

from uclearn.gaussian import GaussianLayer
from uclearn.methods.ucl.anchors import GaussianAnchor, Term, exact
from uclearn.methods.ucl.rules import evidence
from uclearn.methods.ucl.seen import SeenInputs
from uclearn.penalties import Given, Moved, output_drift, output_gradient


class OutputAnchor(GaussianAnchor):
    """A Gaussian layer that is held to what its nodes say to what they have been given."""

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.seen = SeenInputs(layer)
        self._given: Given | None = None
        self._node = self.sigma  # (groups, nodes per group) squared strength, once tightened

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Weights and biases are held together; which node feeds a weight is in what was seen."""
        self.anchored = []
        self._given = self.seen.given()
        groups = self.layer.inputs_last(self.weight).shape[0]
        self._node = (evidence(self.strength()) * drift * self.even).view(groups, -1)

    def output_term(self, scale: float, *, valued: bool = True) -> Term | None:
        """Of weight and bias, whichever of them is trained."""
        layer, given = self.layer, self._given
        weight, bias = layer.get_parameter("weight"), layer.bias
        trained = [each for each in (weight, bias) if each is not None and each.requires_grad]
        if given is None or not trained:
            return None
        moved = layer.inputs_last(exact(weight)) - layer.inputs_last(exact(self.weight))
        moved = moved.unsqueeze(2).flatten(2, -2)  # (groups, nodes, positions, inputs)
        moved_bias = None
        if bias is not None:
            moved_bias = (exact(bias) - exact(self.bias)).view_as(self._node)
        drift = (Moved(moved, moved_bias), given, self._node * scale)
        if valued:
            value, pull = output_drift(*drift)
        else:
            value, pull = moved.new_zeros(()), output_gradient(*drift)
        gradients = [self._as_stored(pull.weight)] if weight.requires_grad else []
        if pull.bias is not None and bias.requires_grad:
            gradients.append(pull.bias.flatten().to(bias.dtype))
        return Term(trained, value, gradients)

    @torch.no_grad()
    def silence_idle(self) -> None:
        """Weights from inputs that have never said anything become 0: what the layer makes of all
        that it was given does not change, and whoever speaks up later is not heard at once."""
        if not self.seen.words:
            view = self.layer.inputs_last(self.layer.weight)
            view.mul_(~self.seen.idle().view(len(view), *(1,) * (view.dim() - 2), -1))

    def _as_stored(self, gradient: Tensor) -> Tensor:
        """In the shape of the weight, from (groups, nodes, positions, inputs)."""
        stored = torch.empty_like(self.layer.weight)
        view = self.layer.inputs_last(stored)
        if gradient.numel() == gradient.shape[1] * gradient.shape[3] and view.is_contiguous():
            return gradient.reshape(stored.shape).to(stored.dtype)  # rows are nodes, as they are
        view.copy_(gradient.reshape(view.shape))
        return stored
