"""What makes layers of other packages Gaussian: mixins that stand before the other's class."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn.gaussian.layers import GaussianLayer
from uclearn.topology import node_dim


class GaussianInOut(GaussianLayer):
    """A linear layer whose weight is stored as (in, out), as GPT-2 has it."""

    nodes_first = False

    def over_nodes(self, values: Tensor) -> Tensor:
        """(1, out)."""
        return values.unsqueeze(0)

    def over_sources(self, values: Tensor) -> Tensor:
        """(in, 1)."""
        return values.unsqueeze(1)

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """Input times weight plus bias."""
        return F.linear(input, weight.t(), bias)

    def length(self, input: Tensor, *others: Any) -> Tensor:
        """(..., 1)."""
        length: Tensor = torch.linalg.vector_norm(input, dim=-1, keepdim=True)
        return length

    def fan(self) -> int:
        """Fan-in."""
        return self.weight.shape[0]

    def inputs_last(self, weight: Tensor) -> Tensor:
        """(1, out, in)."""
        return weight.t().unsqueeze(0)

    def inputs_seen(self, input: Tensor) -> Tensor:
        """(1, examples, places..., in)."""
        return input.unsqueeze(0) if input.dim() > 1 else input.view(1, 1, -1)


class DrawsBeforeUse(nn.Module):
    """For a layer that makes something of its weight before it uses it (standardises it, say): it
    is called with a drawn weight in place of its own. Weights are drawn whatever `sampling` says:
    what is made of them is not known. The Gaussian layer stands behind the other's class."""

    def forward(self: Any, *given: Any, **named: Any) -> Any:
        """As the other layer, with noise where the layer draws."""
        if (listener := self.listener) is not None:
            listener(next(iter((*given, *named.values()))))
            self.listener = None
            try:
                return super().forward(*given, **named)
            finally:
                self.listener = listener
        if not (self.training if self.draws is None else self.draws):
            return super().forward(*given, **named)
        drawn = {"weight": self._sampled_weight(), "bias": self._sampled_bias()}
        own = {name: self._parameters[name] for name in drawn if name in self._parameters}
        draws, self.draws = self.draws, False  # it may end up in the Gaussian layer after all
        try:
            for name in own:
                self._parameters[name] = drawn[name]
            return super().forward(*given, **named)
        finally:
            self._parameters.update(own)
            self.draws = draws

    def length(self: Any, input: Tensor, *others: Any) -> Tensor:
        """As the Gaussian layer has it; of a convolution (batch, 1, ...), as if every place saw as
        much as the average one: how the other layer pads is not known."""
        if not isinstance(self, nn.modules.conv._ConvNd):
            found: Tensor = super().length(input, *others)  # type: ignore[misc]
            return found
        squares = input.square().sum(node_dim(self), keepdim=True)
        places = tuple(range(node_dim(self) + 1, 0))
        energy = squares.mean(places, keepdim=True) * (math.prod(self.kernel_size) / self.groups)
        return energy.sqrt()
