"""Brute force: what the library computes cleverly, computed slowly, one weight at a time.

Nothing here uses the library's views, pieces or closed forms; only plain torch layers and loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call


class Join(NamedTuple):
    """The two ends of one weight."""

    place: tuple[int, ...]
    """Where the weight stands in `layer.weight`."""
    node: int
    """The output feature or channel that it comes into."""
    source: int
    """The input feature or channel that it comes from."""


def joins(layer: nn.Module) -> Iterator[Join]:
    """Every weight of a layer with the nodes that it joins, by the definition of the layer."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    for index in itertools.product(*(range(size) for size in weight.shape)):
        first, second = index[0], index[1]
        if isinstance(layer, nn.Linear):
            yield Join(index, node=first, source=second)
        elif isinstance(layer, nn.Embedding):  # a linear layer on one-hot words, stored transposed
            yield Join(index, node=second, source=first)
        elif isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
            group = first // (layer.in_channels // layer.groups)
            node = group * (layer.out_channels // layer.groups) + second
            yield Join(index, node=node, source=first)
        elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            group = first // (layer.out_channels // layer.groups)
            source = group * (layer.in_channels // layer.groups) + second
            yield Join(index, node=first, source=source)
        else:
            raise NotImplementedError(type(layer).__name__)


def node_of_weight(layer: nn.Module) -> Tensor:
    """Like `layer.weight`: the number of the output node of every weight."""
    assert isinstance(layer.weight, Tensor)
    nodes = torch.zeros(layer.weight.shape, dtype=torch.int64)
    for join in joins(layer):
        nodes[join.place] = join.node
    return nodes


# -- penalties ---------------------------------------------------------------------------------


def hold_by_loop(
    mean: Tensor,
    anchor: Tensor,
    ends: Sequence[Join],
    node: Sequence[float],
    source: Sequence[float] | None,
    drift_weight: float = 1.0,
    freeze_weight: float = 1.0,
) -> tuple[float, Tensor]:
    """Eq. (4) + eq. (5) and their gradient.

    Args:
        mean: the weights; `anchor` is what the previous task left of them.
        anchor: like `mean`.
        ends: every weight with the nodes that it joins.
        node: strength of each output node.
        source: strength of each input feature, None to leave it out.
        drift_weight: weight of eq. (4).
        freeze_weight: weight of eq. (5).
    """
    value, gradient = 0.0, torch.zeros_like(mean)
    for place, i, j in ends:
        moved = mean[place].item() - anchor[place].item()
        strongest = node[i] if source is None else max(node[i], source[j])
        press = (node[i] * anchor[place].item()) ** 2
        value += drift_weight * 0.5 * (strongest * moved) ** 2
        value += freeze_weight * press * abs(moved)
        direction = 0.0 if moved == 0 else math.copysign(1.0, moved)
        gradient[place] = drift_weight * strongest**2 * moved + freeze_weight * press * direction
    return value, gradient


def spread_by_loop(
    sigma: Sequence[float], previous: Sequence[float], inflate: bool
) -> tuple[float, list[float]]:
    """Term (b) and, with `inflate`, eq. (6), and the gradient for each sigma."""
    value, gradient = 0.0, []
    for now, before in zip(sigma, previous, strict=True):
        value += 0.5 * ((now / before) ** 2 - math.log((now / before) ** 2))
        slope = now / before**2 - 1 / now
        if inflate:
            value += 0.5 * (now**2 - math.log(now**2))
            slope += now - 1 / now
        gradient.append(slope)
    return value, gradient


# -- what weight noise does to outputs ---------------------------------------------------------


def output_covariance(
    layer: nn.Module, input: Tensor, sigma: Tensor, sigma_bias: Tensor | None
) -> Tensor:
    """(outputs, outputs): the covariance of all outputs of a batch when weights are drawn once,
    w ~ N(mean, sigma_node^2). Outputs are linear in the weights, so it is J Sigma J^T with the
    Jacobian J.

    Args:
        layer: a plain layer.
        input: a batch.
        sigma: (nodes,) of the weights.
        sigma_bias: (nodes,) of the biases, or None.
    """
    parameters = {name: p.detach().double() for name, p in layer.named_parameters()}
    spreads = {"weight": sigma.double()[node_of_weight(layer)]}
    if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
        spreads["weight"][layer.padding_idx] = 0  # padding is exact by definition
    if sigma_bias is not None:
        spreads["bias"] = sigma_bias.double()
    x = input.double() if input.is_floating_point() else input
    covariance: Tensor | float = 0.0
    for name, spread in spreads.items():

        def run(value: Tensor, name: str = name) -> Tensor:
            output: Tensor = functional_call(layer, parameters | {name: value}, (x,))
            return output.flatten()

        jacobian = torch.func.jacrev(run)(parameters[name]).flatten(1)  # (outputs, weights)
        covariance = covariance + (jacobian * spread.flatten().square()) @ jacobian.T
    assert isinstance(covariance, Tensor)
    return covariance


def output_energy(layer: nn.Module, input: Tensor) -> Tensor:
    """Like the output: the sum of the squares of the inputs that each output sees, by running
    the plain layer on squared inputs with all weights 1."""
    assert isinstance(layer.weight, Tensor)
    parameters = {name: torch.zeros_like(p) for name, p in layer.named_parameters()}
    parameters["weight"] = torch.ones_like(layer.weight)
    if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
        parameters["weight"][layer.padding_idx] = 0
    squares = input.square() if input.is_floating_point() else input  # words are one-hot inputs
    energy: Tensor = functional_call(layer, parameters, (squares,))
    return energy
