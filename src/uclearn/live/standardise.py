"""Features on a common scale, as a part of the network: what is served needs no other step."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """`(x - mean) / scale`, feature by feature; nothing in it is learned.

    Args:
        features: of an example, (features,).

    >>> layer = Standardise.of(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    >>> layer(torch.tensor([[2.0, 6.0]]))
    tensor([[1., 1.]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    @classmethod
    def of(cls, examples: Tensor) -> Standardise:
        """By mean and standard deviation of `examples`; a constant feature is only shifted."""
        layer = cls(examples.shape[1])
        spread = examples.std(dim=0, correction=0)
        layer.mean.copy_(examples.mean(dim=0))
        layer.scale.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return (x - self.mean) / self.scale
