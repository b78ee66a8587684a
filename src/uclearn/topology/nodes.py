"""Where the nodes of a layer are, and how many."""

from __future__ import annotations

from torch import nn

from uclearn.errors import UnsupportedLayerError

_CONVOLUTIONS = (
    nn.modules.conv._ConvNd  # every convolution of torch, transposed ones included
)


def node_dim(layer: nn.Module) -> int:
    """The dimension of a layer's output (and input) that counts nodes, from the end."""
    if isinstance(layer, _CONVOLUTIONS):
        return -1 - len(layer.kernel_size)
    return -1


def node_count(layer: nn.Module) -> int:
    """How many nodes a layer makes: output features, channels or embedding dimensions."""
    for attribute in ("out_features", "out_channels", "embedding_dim"):
        if hasattr(layer, attribute):
            return int(getattr(layer, attribute))
    raise UnsupportedLayerError(
        f"{type(layer).__name__} has no nodes that could be counted. Give it an attribute "
        "`out_features` that says how many features it puts out."
    )
