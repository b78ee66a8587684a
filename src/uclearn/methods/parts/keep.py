"""Weights that must not move, whatever the optimiser does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Kept(NamedTuple):
    """Some elements of a parameter and the values that they keep."""

    parameter: nn.Parameter
    mask: Tensor
    """Broadcastable to the parameter: 1 for what is kept, else 0."""
    values: Tensor
    """Like the parameter."""


def keep(parameter: nn.Parameter, mask: Tensor) -> Iterable[Kept]:
    """The elements where the mask (bool) is true, as they are now; nothing where none is."""
    if bool(mask.any()):
        # as numbers: on a CPU arithmetic is several times as fast as filling and choosing
        yield Kept(parameter, mask.to(parameter.dtype), parameter.detach().clone())


@torch.no_grad()
def mask_gradients(kept: Iterable[Kept]) -> list[Kept]:
    """Their gradients become exactly 0, before an optimiser can make a step out of a tiny one.

    Returns those that have a gradient at all. An optimiser does not touch the others (the heads of
    earlier tasks), so that they cost nothing, however many there are.
    """
    exposed = [each for each in kept if each.parameter.grad is not None]
    for parameter, mask, _ in exposed:
        assert parameter.grad is not None
        parameter.grad.addcmul_(parameter.grad, mask, value=-1)  # g - g = 0, g - 0 = g
    return exposed


@torch.no_grad()
def put_back(kept: Iterable[Kept]) -> None:
    """They get their values back: momentum and weight decay move without any gradient."""
    for parameter, mask, values in kept:
        parameter.lerp_(values, mask.expand_as(parameter))  # exact at both ends


JOINED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Embedding)
"""The layers of which `join_mask` knows what each weight joins, by exact type."""


def join_mask(layer: nn.Module, nodes: Tensor, features: Tensor) -> Tensor:
    """Which weights join one of the nodes to one of the features, broadcastable to `weight`.

    Args:
        layer: one of `JOINED`.
        nodes: (nodes,) bool.
        features: (input features,) bool.

    >>> join_mask(nn.Linear(3, 2), torch.tensor([True, False]), torch.tensor([True, True, False]))
    tensor([[ True,  True, False],
            [False, False, False]])
    """
    groups = int(getattr(layer, "groups", 1))
    ends = nodes.view(groups, -1), features.view(groups, -1)
    if isinstance(layer, nn.Embedding | nn.modules.conv._ConvTransposeNd):  # stored in by out
        ends = ends[1], ends[0]
    elif bool(features.all()):  # every first layer: one number per node tells it all
        ends = ends[0], ends[1][:, :1]
    pairs = (ends[0].unsqueeze(2) & ends[1].unsqueeze(1)).flatten(0, 1)
    assert isinstance(layer.weight, Tensor)
    return pairs.view(*pairs.shape, *[1] * (layer.weight.dim() - 2))
