"""The two convolutional networks of the paper's supplement, each with a head for every task."""

from __future__ import annotations

import torch
from torch import nn

from uclearn.networks.heads import MultiHead
from uclearn.networks.start import he_start


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
