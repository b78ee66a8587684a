"""Layers of random geometry with random strengths, as hypothesis draws them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles import Join, joins
from uclearn.gaussian.layers import (
    GaussianConv1d,
    GaussianConv2d,
    GaussianConv3d,
    GaussianConvTranspose2d,
    GaussianEmbedding,
    GaussianLayer,
    GaussianLinear,
)
from uclearn.penalties import Grip

CONVOLUTIONS = (GaussianConv1d, GaussianConv2d, GaussianConv3d, GaussianConvTranspose2d)


@dataclass(frozen=True)
class Scene:
    """A layer whose weights have moved away from an anchor, and the strengths around it."""

    layer: GaussianLayer
    mean: Tensor
    anchor: Tensor
    node: Tensor
    source: Tensor | None

    @property
    def ends(self) -> list[Join]:
        return list(joins(self.layer))

    def grip(self, drift: float = 1.0, freeze: float | None = 1.0) -> Grip:
        """As a method would hand it to `hold`: vectors through the layer's own views."""
        node = self.layer.over_nodes(self.node.square())
        return Grip(
            node=node * drift,
            source=None
            if self.source is None
            else self.layer.over_sources(self.source.square()) * drift,
            freeze=None if freeze is None else node * freeze,
        )

    def blocks(self, tensor: Tensor) -> Tensor:
        return self.layer.blocks(tensor)


@st.composite
def layers(draw: st.DrawFn) -> GaussianLayer:
    """Linear, embedding, (grouped, transposed) convolution; never more than some 150 weights."""
    kind = draw(st.sampled_from([GaussianLinear, GaussianEmbedding, *CONVOLUTIONS]))
    small = st.integers(1, 3)
    if kind in (GaussianLinear, GaussianEmbedding):
        return kind(draw(st.integers(1, 8)), draw(st.integers(1, 8)))
    groups = draw(small)
    spatial = 2 if kind is GaussianConvTranspose2d else 1 + CONVOLUTIONS.index(kind)
    kernel = tuple(draw(st.integers(1, 2)) for _ in range(spatial))
    inputs, outputs = groups * draw(st.integers(1, 2)), groups * draw(small)
    return kind(inputs, outputs, kernel, groups=groups)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Some weights have not moved, some anchors are 0, some inputs are fed by no node."""
    layer = draw(layers())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    anchor = torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64)
    moved = torch.randn(anchor.shape, generator=generator, dtype=torch.float64)
    stays, blank = (torch.rand(anchor.shape, generator=generator) < 0.2 for _ in range(2))
    anchor, moved = anchor.masked_fill(blank, 0.0), moved.masked_fill(stays, 0.0)
    nodes = 1 + max(join.node for join in joins(layer))
    sources = 1 + max(join.source for join in joins(layer))
    node = 3 * torch.rand(nodes, generator=generator, dtype=torch.float64)
    source = 3 * torch.rand(sources, generator=generator, dtype=torch.float64)
    source = source.masked_fill(torch.rand(sources, generator=generator) < 0.3, 0.0)
    return Scene(
        layer=layer.double(),
        mean=anchor + moved,
        anchor=anchor,
        node=node,
        source=source if draw(st.booleans()) else None,
    )


pieces = st.one_of(st.integers(1, 40), st.just(1 << 17))
"""Weights per piece: from one row at a time to all at once."""
