"""Fully connected networks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn

from uclearn.networks.heads import MultiHead
from uclearn.networks.start import he_start


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
