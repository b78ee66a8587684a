"""HAT's gates: each task opens some of the nodes.

    gate of node i for task t:   a = sigmoid(s * e_ti)

with a learned embedding e. The scale s grows within each epoch from 1/smax, where every gate is
half open and learns, to smax, where gates are all but 0 or 1:

    s = 1/smax + (smax - 1/smax) * progress
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import Survey, require_convertible, survey
from uclearn.gaussian.functions import in_transform
from uclearn.native import calls, holding
from uclearn.networks import head_names
from uclearn.topology import node_count, node_dim


class Kept(NamedTuple):
    """Some elements of a parameter and the values that they keep."""

    parameter: nn.Parameter
    mask: Tensor
    """Broadcastable to the parameter: 1 for what is kept, else 0."""
    values: Tensor
    """Like the parameter."""
    rows: Tensor | None
    """Bytes: in which rows of the parameter anything is kept; None where the mask has no rows."""


def keep(parameter: nn.Parameter, mask: Tensor) -> Iterable[Kept]:
    """The elements where the mask (bool) is true, as they are now; nothing where none is."""
    if bool(mask.any()):
        # as numbers: on a CPU arithmetic is several times as fast as filling and choosing
        numbers = mask.to(parameter.dtype)
        yield Kept(parameter, numbers, parameter.detach().clone(), _rows_kept(parameter, mask))


def _rows_kept(parameter: Tensor, mask: Tensor) -> Tensor | None:
    """A row is what one number of the mask stands for, or else the first dimension's."""
    leading = mask.dim()
    while leading > 0 and mask.shape[leading - 1] == 1:
        leading -= 1
    if mask.shape[:leading] != parameter.shape[:leading]:
        return None
    whole = leading == parameter.dim() > 1
    return (mask.flatten(1).any(1) if whole else mask.flatten()).to(torch.uint8)


@torch.no_grad()
def mask_gradients(kept: Iterable[Kept]) -> list[Kept]:
    """Their gradients become exactly 0, before an optimiser can make a step out of a tiny one.

    Returns those that have a gradient at all. An optimiser does not touch the others (the heads of
    earlier tasks), so that they cost nothing, however many there are.
    """
    exposed = [each for each in kept if each.parameter.grad is not None]
    for parameter, mask, _, rows in exposed:
        gradient = parameter.grad
        assert gradient is not None
        if rows is not None and calls.usable(gradient, mask):
            holding.close_rows(gradient, None, mask, rows)
        else:
            gradient.addcmul_(gradient, mask, value=-1)  # g - g = 0, g - 0 = g
    return exposed


@torch.no_grad()
def put_back(kept: Iterable[Kept]) -> None:
    """They get their values back: momentum and weight decay move without any gradient."""
    for parameter, mask, values, rows in kept:
        if rows is not None and calls.usable(parameter, mask, values):
            holding.close_rows(parameter, values, mask, rows)
        else:
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


EMBEDDING_LIMIT = 6.0
"""Embeddings are kept within +-6: sigmoid(6) is 0.998, and what is further out learns nothing."""
SHUT = 1e-25
"""A soft gate below this is 0: whatever comes through is lost in rounding."""
_COSH_LIMIT = 50.0  # cosh(50) is 3e21, within single precision


LOST = 1e-12
"""Behind a soft gate below this the weights of a node learn nothing: what they would is lost in
rounding."""


class _Through(Function):
    """output * gate. Weights behind gates that are all but closed get no gradient instead of a tiny
    one: tiny ones become numbers too small to be normal further on, as `SHUT` says."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, gate: Tensor) -> Tensor:
        ctx.save_for_backward(output, gate)
        return output * gate

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        output, gate = ctx.saved_tensors
        learning = torch.where(gate < LOST, 0, gate)
        return gradient * learning, (gradient * output).sum_to_size(gate.shape)


def _through(output: Tensor, gate: Tensor) -> Tensor:
    if in_transform():
        return output * gate
    gated: Tensor = _Through.apply(output, gate)  # type: ignore[no-untyped-call]
    return gated


class NodeGates(nn.Module):
    """The gates of one layer's nodes, for all tasks.

    In `train()` the output is multiplied by the soft gates of the present task; in `eval()` the
    gates are 0 or 1: those that the task ended with, or, for a task that has not ended, those with
    a positive embedding.
    """

    embedding: nn.Parameter
    """(tasks, nodes)"""
    open: Tensor
    """(tasks, nodes) bool: the nodes that each finished task uses; none for an unfinished one."""
    finished: Tensor
    """(tasks,) bool"""
    scale: Tensor
    """() s"""

    def __init__(self, embedding: Tensor, scale: float, trailing: int) -> None:
        super().__init__()
        tasks, self.nodes = embedding.shape
        self.embedding = nn.Parameter(embedding)
        self.register_buffer("open", torch.zeros_like(embedding, dtype=torch.bool))
        self.register_buffer("finished", embedding.new_zeros(tasks, dtype=torch.bool))
        self.register_buffer("scale", embedding.new_tensor(scale))
        self.shape = (-1,) + (1,) * trailing  # dimensions of an output after that of its nodes
        self.task = 0

    def soft(self, scale: float | None = None) -> Tensor:
        """(nodes,) sigmoid(s e) of the present task, at its own scale unless another is given."""
        return torch.sigmoid((self.scale if scale is None else scale) * self.embedding[self.task])

    def hard(self) -> Tensor:
        """(nodes,) bool: what the present task uses."""
        now = self.embedding[self.task].detach() > 0
        return torch.where(self.finished[self.task], self.open[self.task], now)

    def used(self) -> Tensor:
        """(nodes,) bool: what any finished task uses."""
        return self.open.any(0)

    def forward(self, output: Tensor) -> Tensor:
        """The output of the layer, node by node through its gate."""
        if self.training:
            gate = self.soft()
            # What is all but closed lets nothing through, but learns as it would. Otherwise the
            # products of such gates become numbers too small to be normal, which a CPU multiplies
            # many times as slowly.
            gate = gate - torch.where(gate.detach() < SHUT, gate.detach(), 0)
            return _through(output, gate.to(output.dtype).view(self.shape))
        # filled, not multiplied: whatever a closed node became since, it is exactly 0
        return output.masked_fill(~self.hard().view(self.shape), 0)

    @torch.no_grad()
    def finish(self) -> None:
        """The present task is over; its gates stay as they are now."""
        self.open[self.task] = self.hard()
        self.finished[self.task] = True


def gateable(model: nn.Module) -> Survey:
    """The layers and normalisations of a model; raises if anything stands against gates."""
    found = survey(model, head_names(model))
    require_convertible(found)
    unknown = [
        f"{n} ({type(m).__name__})" for n, m in found.layers.items() if type(m) not in JOINED
    ]
    if unknown:
        raise UnsupportedLayerError(
            f"It is not known which nodes the weights of these layers join: {', '.join(unknown)}. "
            f"Known layers: {', '.join(kind.__name__ for kind in JOINED)}."
        )
    moving = [n for n, m in model.named_modules() if getattr(m, "running_mean", None) is not None]
    if moving:
        raise UnsupportedLayerError(
            f"HAT keeps what earlier tasks need bit for bit, but these keep running statistics, "
            f"which all tasks share and each one moves: {', '.join(moving)}. Use GroupNorm or "
            "LayerNorm, or switch the statistics off (track_running_stats=False)."
        )
    return found


def add_gate(layer: nn.Module, tasks: int, scale: float, generator: torch.Generator) -> NodeGates:
    """Put a gate behind a layer, with embeddings drawn from N(0, 1). It belongs to the layer."""
    embedding = torch.randn(tasks, node_count(layer), generator=generator)
    gate = NodeGates(embedding.to(next(layer.parameters())), scale, trailing=-1 - node_dim(layer))
    layer.add_module("gate", gate)
    layer.register_forward_hook(_through_gate)
    return gate


def _through_gate(layer: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    # found through the layer, so that the copy of a layer has the gate of the copy
    gated: Tensor = layer.gate(output)  # type: ignore[operator]
    return gated


def anneal(progress: float, smax: float) -> float:
    """The scale s at this point of the epoch (0 to 1): `1/smax + (smax - 1/smax) * progress`.

    >>> anneal(0.0, 400.0), anneal(1.0, 400.0)
    (0.0025, 400.0)
    """
    return 1 / smax + (smax - 1 / smax) * progress


def compensation(embedding: Tensor, scale: Tensor, smax: float) -> Tensor:
    """What the gradient of each embedding, (nodes,), is multiplied by:

        smax/s * (cosh(s e) + 1) / (cosh(e) + 1)

    The slope of sigmoid(s e) is s / (2 (cosh(s e) + 1)), which vanishes as s grows; this puts that
    of smax * sigmoid(e) in its place. s e is limited to +-50.

    >>> compensation(torch.tensor([0.0]), torch.tensor(4.0), 400.0)
    tensor([100.])
    """
    steep = (scale * embedding).clamp(-_COSH_LIMIT, _COSH_LIMIT).cosh() + 1
    return smax / scale * steep / (embedding.cosh() + 1)


def sparsity(gates: Tensor, free: Tensor) -> Tensor:
    """`sum a (1 - u) / sum (1 - u)` over all nodes: how much a task opens of what is still free.

    Args:
        gates: (nodes,) the gates a.
        free: (nodes,) 1 - u: 1 where no earlier task uses the node, else 0.

    By hand: gates 0.5 and 1 on free nodes, 1 on a used one: 1.5 / 2.

    >>> sparsity(torch.tensor([0.5, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0]))
    tensor(0.7500)
    """
    return torch.dot(gates, free) / free.sum().clamp_min(1)  # 1: nothing free, nothing opened
