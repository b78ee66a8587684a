"""What a method remembers, extended for nodes that it did not know before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian.layers import softplus_inverse
from uclearn.methods.contract import Method
from uclearn.methods.ewc import EWC
from uclearn.methods.finetuning import FineTuning
from uclearn.methods.joint import Joint
from uclearn.methods.mas import MAS
from uclearn.methods.parts.anchors import NamedTensors
from uclearn.methods.parts.wrapper import innermost
from uclearn.methods.rwalk import RWalk
from uclearn.methods.si import SI
from uclearn.methods.ucl import UCL
from uclearn.methods.ucl.batch_norm import tracking_norms
from uclearn.methods.ucl.penalty import GaussianAnchor, LayerAnchor
from uclearn.surgery.anatomy import Anatomy
from uclearn.surgery.resize import NEW, Cut, Cuts, cut_values, pick


@dataclass(frozen=True)
class Growth:
    """How a method's model has grown."""

    anatomy: Anatomy
    """As it was before, with the modules as they are now."""
    cuts: Cuts
    example: Any

    def of(self, module: nn.Module) -> Cut:
        """What happened to one layer or normalisation."""
        held = {**self.anatomy.layers, **self.anatomy.norms}
        return next(self.cuts.of[name] for name, own in held.items() if own is module)

    def padded(self, module: nn.Module, name: str, kept: Tensor) -> Tensor:
        """What is kept of the parameter `name`, with 0 where it is new."""
        if kept.shape == getattr(module, name).shape:
            return kept  # it has not grown
        return cut_values(module, name, kept, self.of(module), 0.0)

    def extended(self, module: nn.Module, name: str, anchor: Tensor) -> Tensor:
        """An anchor of the parameter `name`: where it is new, the parameter as it is now."""
        old = self.padded(module, name, torch.ones_like(anchor))
        now = getattr(module, name).detach()
        return torch.where(old > 0, self.padded(module, name, anchor), now)


Grower = Callable[[Any, Growth], None]


def grow(method: Method, growth: Growth) -> None:
    """Extend what `method` remembers, in place; its model has grown already."""
    inner = innermost(method)  # wrappers keep examples, which have no nodes
    GROWERS[type(inner)](inner, growth)


def require_growable(method: Method) -> None:
    """Refuse a method whose memory nobody knows how to extend."""
    kind = type(innermost(method))
    if kind not in GROWERS:
        known = ", ".join(known.__name__ for known in GROWERS)
        raise UnsupportedLayerError(
            f"A network under {kind.__name__} cannot be widened: it is not known what its memory "
            f"should hold for new nodes. These can: {known}; "
            "uclearn.surgery.growth.register_growth teaches it another."
        )


def register_growth(kind: type[Method], grower: Grower) -> None:
    """Teach widening a method of yours: `grower(method, growth)` extends its memory in place."""
    GROWERS[kind] = grower


def _nothing(method: Method, growth: Growth) -> None:
    """It remembers nothing of the size of the network."""


@torch.no_grad()
def _ucl(method: UCL, growth: Growth) -> None:
    """New nodes: the initial sigma, as if the previous task had left it; anchored where they are.

    The rest of a batch norm's statistics is kept for each task; a new feature's are neutral.
    """
    for held in method.held:
        assert isinstance(held, LayerAnchor)
        for name in ("weight", "bias"):
            if name in held._buffers:
                anchor = held.get_buffer(name)
                setattr(held, name, growth.extended(held.layer, name, anchor))
        if isinstance(held, GaussianAnchor):
            _free_nodes(held, growth.of(held.layer).nodes)
    method.statistics.per_task = _statistics(method, growth)
    method.retrace(growth.example)


def _free_nodes(held: GaussianAnchor, nodes: Tensor) -> None:
    initial, layer = float(held.initial), held.layer
    fresh = (nodes == NEW).to(layer.rho.device)
    for which in ("sigma", "sigma_bias"):
        if which in held._buffers:
            setattr(held, which, pick(held.get_buffer(which), nodes, initial))
    for rho in (layer.rho, layer.rho_bias):
        if rho is not None:
            rho[fresh] = softplus_inverse(initial)


def _statistics(method: UCL, growth: Growth) -> Tensor:
    """(tasks, numbers): per norm the means, then the variances."""
    flat, parts, start = method.statistics.per_task, [], 0
    for norm in tracking_norms(method.model):
        features = growth.of(norm).features
        before = int((features != NEW).sum())
        for neutral in (0.0, 1.0):
            parts.append(pick(flat[:, start : start + before], features, neutral, dim=1))
            start += before
    return torch.cat(parts, dim=1) if parts else flat


_OF_WEIGHTS = ("memory.anchor", "start", "path.before")
"""What EWC, SI, MAS and RWalk keep of the weights themselves; all else starts at 0."""


@torch.no_grad()
def _springs(method: Method, growth: Growth) -> None:
    """New weights: no importance, nothing on their path, anchored where they are."""
    modules = dict(method.model.named_modules())
    for place, kept in method.named_modules():
        if not isinstance(kept, NamedTensors):
            continue
        for key, tensor in list(kept.named_buffers()):
            owner, _, name = key.replace("/", ".").rpartition(".")
            if owner not in growth.cuts.of:
                continue
            module = modules[owner]
            if place in _OF_WEIGHTS:
                kept._buffers[key] = growth.extended(module, name, tensor)
            else:
                kept._buffers[key] = growth.padded(module, name, tensor)


GROWERS: dict[type[Method], Grower] = {
    UCL: _ucl,
    EWC: _springs,
    SI: _springs,
    MAS: _springs,
    RWalk: _springs,
    Method: _nothing,
    FineTuning: _nothing,
    Joint: _nothing,
}
"""By exact type: a subclass may remember more."""

__all__ = ["GROWERS", "Growth", "grow", "register_growth", "require_growable"]
