"""What UCL remembers grows with a model that is widened."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uclearn.gaussian.layers import softplus_inverse
from uclearn.methods.ucl.anchors import GaussianAnchor, LayerAnchor
from uclearn.methods.ucl.batch_norm import tracking_norms
from uclearn.methods.ucl.outputs import OutputAnchor


@torch.no_grad()
def grow(method: Any, growth: Any) -> None:
    """After the model of a UCL was widened (`growth`: a `uclearn.surgery.growth.Growth`): new nodes
    have the initial sigma, as if the previous task had left it, and are anchored where they are; a
    new feature's statistics are neutral."""
    for held in method.held:
        assert isinstance(held, LayerAnchor)
        for name, kept in held.names.items():
            setattr(held, kept, growth.extended(held.layer, name, held.get_buffer(kept)))
        if isinstance(held, GaussianAnchor):
            _free_nodes(held, growth)
        if isinstance(held, OutputAnchor):
            places = growth.of(held.layer).features.to(held.sigma.device)
            held.seen = held.seen.widened(held.layer, places, NEW)
    method.statistics.per_task = _statistics(method, growth)
    method.retrace(growth.example)


NEW = -1
"""As `uclearn.surgery.resize` marks what was not there before."""


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
