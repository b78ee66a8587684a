"""Fully connected networks, and the two convolutional ones of the paper's supplement."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

from uclearn.networks.heads import MultiHead


def mlp(
    inputs: int,
    hidden: Sequence[int],
    outputs: int | None,
    *,
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    seed: int = 0,
) -> nn.Module:
    """ReLU layers, He-initialised; `outputs=None` gives a trunk with a head for each task.

    Args:
        inputs: features per example.
        hidden: width of each hidden layer.
        outputs: width of the one output layer, or None for heads that tasks add.
        dropout: after each hidden layer.
        input_dropout: on the inputs.
        seed: for the weights.

    >>> sum(p.numel() for p in mlp(784, (400, 400), 10).parameters())
    478410
    """
    layers: list[nn.Module] = [nn.Dropout(input_dropout)] if input_dropout else []
    for before, after in itertools.pairwise((inputs, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    if outputs is not None:
        layers.append(nn.Linear(hidden[-1] if hidden else inputs, outputs))
    trunk = he_start(nn.Sequential(*layers), torch.Generator().manual_seed(seed))
    return trunk if outputs is not None else MultiHead(trunk, hidden[-1], seed)


def cifar_network(*, seed: int = 0) -> MultiHead:
    """Six convolutions and a dense layer for (3, 32, 32) images (supplement, table 1).

    Dropout 0.25 after each pooling and 0.5 after the dense layer. No padding in the third pooling,
    so that 4 x 4 x 128 values enter the dense layer, as the paper's count of parameters needs.

    >>> net = cifar_network()
    >>> for _ in range(11):
    ...     _ = net.add_head(10)
    >>> sum(p.numel() for p in net.parameters())
    839822
    """
    layers: list[nn.Module] = []
    before = 3
    for channels in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    layers += [nn.Flatten(), nn.Linear(128 * 4 * 4, 256), nn.ReLU(), nn.Dropout(0.5)]
    return _with_heads(layers, 256, seed)


def omniglot_network(*, seed: int = 0) -> MultiHead:
    """Four convolutions for (1, 28, 28) drawings (supplement, table 2); 4 x 4 x 64 values enter
    each head."""
    layers: list[nn.Module] = []
    before = 1
    for _ in range(2):
        for _ in range(2):
            layers += [nn.Conv2d(before, 64, 3), nn.ReLU()]
            before = 64
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    return _with_heads(layers, 64 * 4 * 4, seed)


def _with_heads(layers: list[nn.Module], features: int, seed: int) -> MultiHead:
    trunk = he_start(nn.Sequential(*layers), torch.Generator().manual_seed(seed))
    return MultiHead(trunk, features, seed)


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
