"""What UCL remembers, extended for nodes that it did not know before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uclearn.gaussian.layers import softplus_inverse
from uclearn.methods.ucl.batch_norm import tracking_norms
from uclearn.methods.ucl.penalty import GaussianAnchor, LayerAnchor


@torch.no_grad()
def grow(method: Any, growth: Any) -> None:
    """New nodes: the initial sigma, as if the previous task had left it; anchored where they are.

    The rest of a batch norm's statistics is kept for each task; a new feature's are neutral.

    Args:
        method: a UCL whose model has been widened.
        growth: how (`uclearn.surgery.growth.Growth`).
    """
    for held in method.held:
        assert isinstance(held, LayerAnchor)
        for name in ("weight", "bias"):
            if name in held._buffers:
                anchor = held.get_buffer(name)
                setattr(held, name, growth.extended(held.layer, name, anchor))
        if isinstance(held, GaussianAnchor):
            _free_nodes(held, growth)
    method.statistics.per_task = _statistics(method, growth)
    method.retrace(growth.example)


def _free_nodes(held: GaussianAnchor, growth: Any) -> None:
    initial, layer = float(held.initial), held.layer
    nodes = growth.of(layer).nodes
    fresh = growth.is_new(nodes).to(layer.rho.device)
    for which in ("sigma", "sigma_bias"):
        if which in held._buffers:
            setattr(held, which, growth.picked(held.get_buffer(which), nodes, initial))
    for rho in (layer.rho, layer.rho_bias):
        if rho is not None:
            rho[fresh] = softplus_inverse(initial)


def _statistics(method: Any, growth: Any) -> Tensor:
    """(tasks, numbers): per norm the means, then the variances."""
    flat: Tensor = method.statistics.per_task
    parts, start = [], 0
    for norm in tracking_norms(method.model):
        features = growth.of(norm).features
        before = int((~growth.is_new(features)).sum())
        for neutral in (0.0, 1.0):
            parts.append(growth.picked(flat[:, start : start + before], features, neutral, dim=1))
            start += before
    return torch.cat(parts, dim=1) if parts else flat
