"""How much a network relies on each of its nodes.

A node that is taken out is replaced by a constant: its mean, which goes into the bias of what reads
it, or 0 where a bias cannot stand for it (a convolution that pads). What is lost is the rest:

    score = strength * sqrt( share )

- strength = sigma_init / sigma: what all tasks together say about the node, those included of which
  no data are at hand (1 for every node where the method knows no uncertainty);
- share: the part of what arrives at a reading layer that would be lost with the node, measured on
  data:

      share = mean over nodes k of  sum_f w_kf^2 E[(x_f - c_f)^2] / the same over all features

  over the features f that the node feeds, c_f the constant that replaces x_f; the largest over all
  layers that read it.

An uncertain node was noisy while the network learned, so what reads it has learned small weights,
and both factors are small. A node that puts out the same number whatever it is shown scores 0.
Nodes that are tied are scored as one, by the strongest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from uclearn.surgery.anatomy import Anatomy
from uclearn.surgery.resize import node_axis, outputs
from uclearn.topology import node_dim


@dataclass(frozen=True)
class Arriving:
    """What arrives at the input features of one layer, over some data."""

    constant: Tensor
    """(features,) what can stand for each of them."""
    lost: Tensor
    """(features,) the mean square of what it cannot stand for."""


def arriving(model: nn.Module, anatomy: Anatomy, batches: Iterable[Any]) -> dict[str, Arriving]:
    """Measure, in evaluation mode, what arrives at each layer; layers that read words are left
    out."""
    moments: dict[str, _Moments] = {}

    def watch(name: str, layer: nn.Module) -> Any:
        def hook(module: nn.Module, arguments: Any, named: Any) -> None:
            input = [*arguments, *named.values()][0]
            if input.is_floating_point():
                rows = input.detach().movedim(node_dim(layer), -1).flatten(0, -2)
                moments.setdefault(name, _Moments()).add(rows)

        return layer.register_forward_pre_hook(hook, with_kwargs=True)

    with ExitStack() as hooks:
        for name, layer in anatomy.layers.items():
            hooks.enter_context(watch(name, layer))
        for batch in batches:
            outputs(model, batch)
    return {name: own.as_read_by(anatomy.layers[name]) for name, own in moments.items()}


class _Moments:
    """Running sums over rows of features, from the first row, so that a constant is exact."""

    def __init__(self) -> None:
        self.first = torch.zeros(())
        self.count = 0

    def add(self, rows: Tensor) -> None:
        """(rows, features)"""
        if self.count == 0:
            self.first = rows[0].double()
            self.sum, self.squares = torch.zeros_like(self.first), torch.zeros_like(self.first)
        apart = rows.double() - self.first
        self.sum += apart.sum(0)
        self.squares += apart.square().sum(0)
        self.count += len(rows)

    def as_read_by(self, layer: nn.Module) -> Arriving:
        """Where a bias can stand for the mean, only the variance is lost."""
        apart, squares = self.sum / self.count, self.squares / self.count
        if _unpadded(layer):
            lost = (squares - apart.square()).clamp_min(0)
            return Arriving((self.first + apart).float(), lost.float())
        raw = squares + 2 * apart * self.first + self.first.square()
        return Arriving(torch.zeros_like(apart).float(), raw.float())


def scores(
    anatomy: Anatomy, found: Mapping[str, Arriving], strengths: Mapping[str, Tensor]
) -> Tensor:
    """(groups,) how much the network relies on each group of nodes: by what was `found` to arrive
    at its layers, and by `strengths`, per layer (nodes,), where the method knows them."""
    share = torch.zeros(anatomy.ties.count)
    for name, reading in found.items():
        layer = anatomy.layers[name]
        if getattr(layer, "groups", 1) == 1:
            shares = feature_shares(layer, reading.lost)
            groups = anatomy.ties.of_features[name]
            fed = groups >= 0
            own = torch.zeros_like(share).index_add_(0, groups[fed], shares[fed].cpu())
            share = torch.maximum(share, own)
    return share.sqrt() * _group_strengths(anatomy, strengths)


def feature_shares(layer: nn.Module, lost: Tensor) -> Tensor:
    """(features,) the share of each feature in what arrives, mean over the layer's nodes.

    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(layer.weight, 2.0)
    >>> feature_shares(layer, torch.tensor([3.0, 1.0]))
    tensor([0.7500, 0.2500])
    """
    weight = joined(layer).square() * lost
    total = weight.sum(1, keepdim=True)
    return (weight / total.clamp_min(torch.finfo(weight.dtype).tiny)).mean(0)


def joined(layer: nn.Module) -> Tensor:
    """(nodes, features) the length of all weights that join each pair."""
    assert isinstance(layer.weight, Tensor)
    weight = layer.weight.detach().movedim(node_axis(layer), 0)
    return torch.linalg.vector_norm(weight.flatten(2), dim=2) if weight.dim() > 2 else weight.abs()


def _group_strengths(anatomy: Anatomy, strengths: Mapping[str, Tensor]) -> Tensor:
    every = torch.zeros(anatomy.topology.total)
    for name in anatomy.layers:
        own = anatomy.topology.nodes(name)
        every[own] = strengths[name].cpu().float() if name in strengths else 1.0
    groups = torch.zeros(anatomy.ties.count)
    return groups.scatter_reduce_(0, anatomy.ties.of_nodes, every, "amax")


def _unpadded(layer: nn.Module) -> bool:
    if not isinstance(layer, _ConvNd):
        return True
    none = layer.padding == "valid" or all(p == 0 for p in layer.padding)
    return none and not isinstance(layer, _ConvTransposeNd)
