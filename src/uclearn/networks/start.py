"""He's initial weights, from a given generator."""

from __future__ import annotations

import math

import torch
from torch import nn


def he_start(network: nn.Module, generator: torch.Generator) -> nn.Module:
    """Uniform weights of variance 2 / fan-in and zero biases, for every Linear and Conv layer."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
                bound = math.sqrt(6 / module.weight[0].numel())
                module.weight.uniform_(-bound, bound, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
    return network
