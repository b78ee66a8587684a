"""What UCL remembers of the inputs that each layer was given: enough to say how far a change of its
weights changes what its nodes say to them (`uclearn.penalties.outputs`).

Of a vector of inputs, with a 1 at its end for the bias, the mean of x x^T is gathered when a task
ends, in units in which its diagonal is 1 on average, and averaged over tasks. With the anchors that
is about what an EWC keeps: blocks on its diagonal no wider than the layer has nodes are no more
numbers than the layer has weights (those of convolutions are narrower, which saves time). Blocks
are at least 64 wide, so that a layer of fewer nodes
keeps up to 64 numbers for each input.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.layers import GaussianEmbedding
from uclearn.methods.contract import Inputs
from uclearn.networks import run
from uclearn.penalties import Given
from uclearn.ranks import present
from uclearn.sizes import SEEN_PIECE
from uclearn.tasks import FromLoader, iterate
from uclearn.tasks.task import Task

EXAMPLES = 4096
"""Of a finished task, spread over all of it, that are looked at: more change the last digits."""
_NARROWEST = 64
"""Blocks are at least that wide: below, a product of matrices costs no less."""
_WIDEST_OF_KERNELS = 128
"""Blocks of convolutions are at most that wide: a dozen channels with all that neighbouring places
have in common; a step of a wide one would cost several times as much."""
_ROUNDING = 1e-6
"""Of second moments; less than that is left of a covariance where nothing varies."""
_REMEMBERED_BYTES = 1 << 28
_REMEMBERED_CALLS = 16


def layout(inputs: int, nodes: int, widest: float = math.inf) -> tuple[int, int]:
    """How many blocks are kept for a layer, and how wide they are.

    >>> layout(784, 256), layout(400, 10), layout(4608, 512, widest=128)
    ((4, 196), (7, 58), (36, 128))
    """
    count = -(-inputs // int(min(inputs, max(nodes, _NARROWEST), widest)))
    return count, -(-inputs // count)


def numbers(inputs: int, nodes: int) -> int:
    """That are kept for a layer: its blocks, and a mean for each input."""
    count, width = layout(inputs, nodes)
    return count * width**2 + inputs


class SeenInputs(nn.Module):
    """Second moments of what one layer was given in finished tasks; all zero before the first.

    Args:
        layer: whose inputs they are.
    """

    tasks: Tensor
    corner: Tensor
    """(): of the bias's constant input."""
    edge: Tensor
    """(groups, inputs): of the constant and each input."""
    blocks: Tensor
    """(groups, blocks, width, width), or (1, inputs) for words of an embedding."""

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__()
        view = layer.inputs_last(layer.weight.detach())
        groups, nodes, inputs = view.shape[0], view.shape[1], math.prod(view.shape[2:])
        self.words = isinstance(layer, GaussianEmbedding)
        of_kernels = isinstance(layer, nn.modules.conv._ConvNd)
        widest = _WIDEST_OF_KERNELS if of_kernels else math.inf
        count, self.width = (1, inputs) if self.words else layout(inputs, nodes, widest)
        zeros = layer.rho.detach().new_zeros
        self.register_buffer("tasks", torch.tensor(0))
        self.register_buffer("corner", zeros(()))
        self.register_buffer("edge", zeros(groups, inputs))
        shape = (1, inputs) if self.words else (groups, count, self.width, self.width)
        self.register_buffer("blocks", zeros(shape))

    def sums(self, seen: Tensor) -> list[Tensor]:
        """Of x x^T over what was seen: constant, edge, blocks.

        Args:
            seen: as `GaussianLayer.inputs_seen` gives it.
        """
        if self.words:
            times = torch.bincount(seen.flatten(), minlength=self.edge.shape[1]).to(self.edge)
            return [times.sum(), times[None], times[None]]
        count = seen[0].numel() / self.edge.shape[1]
        edge, blocks = torch.zeros_like(self.edge), torch.zeros_like(self.blocks)
        for piece in seen.split(max(1, SEEN_PIECE // max(1, seen[:, :1].numel())), 1):
            rows = piece.reshape(*self.edge.shape[:1], -1, self.edge.shape[1]).to(edge.dtype)
            edge += rows.sum(1)
            for number, part in enumerate(rows.split(self.width, -1)):
                wide = part.shape[-1]
                blocks[:, number, :wide, :wide] += part.mT @ part
        return [torch.tensor(count).to(edge), edge, blocks]

    def add_task(self, sums: Sequence[Tensor]) -> None:
        """A task is over; `sums` of what it gave the layer count like those of any other task."""
        count, edge, blocks = sums
        diagonal = blocks if self.words else blocks.diagonal(dim1=-2, dim2=-1)
        share = 1 / (float(self.tasks) + 1)
        unit = (diagonal.sum() / len(edge) + count) / (edge.shape[1] + 1)
        for kept, new in zip((self.corner, self.edge, self.blocks), sums, strict=True):
            kept.lerp_(new.to(kept) / unit.clamp_min(torch.finfo(kept.dtype).tiny), share)
        self.tasks += 1

    def given(self) -> Given | None:
        """The distribution of what was seen; None before the first task."""
        if self.tasks == 0:
            return None
        return self._distribution((self.corner, self.edge, self.blocks))

    def alike(self, sums: Sequence[Tensor]) -> float | None:
        """The cosine between the covariances of what was seen and of what has these `sums`; None
        where either did not vary."""
        found = []
        for corner, edge, blocks in ((self.corner, self.edge, self.blocks), sums):
            varies = self._distribution((corner, edge, blocks)).covariance.double()
            if varies.norm() <= _ROUNDING * blocks.double().norm():
                return None
            found.append(varies / varies.norm())
        return float((found[0] * found[1]).sum())

    def _distribution(self, moments: Sequence[Tensor]) -> Given:
        """Of what has these moments, in units of its own."""
        corner, edge, blocks = moments
        one = corner.sqrt().clamp_min(torch.finfo(corner.dtype).tiny)
        mean = edge / one
        if self.words:  # one-hot vectors: the moments are diagonal as they are
            return Given(torch.zeros_like(mean), blocks.clone(), one)
        covariance = blocks.clone()
        for number, part in enumerate(mean.split(self.width, -1)):
            wide = part.shape[-1]
            covariance[:, number, :wide, :wide] -= part[:, :, None] * part[:, None, :]
        return Given(mean, covariance, one)

    def taken(self) -> float:
        """The share of the directions of inputs in which something was seen
        (`uclearn.measures.capacity`); of an embedding's words."""
        inputs = self.edge.shape[1]
        if (given := self.given()) is None:
            return 0.0
        if self.words:
            return float((given.covariance > 0).sum()) / inputs
        total = given.covariance.diagonal(dim1=-2, dim2=-1).sum((1, 2)).square()
        squares = given.covariance.square().sum((1, 2, 3))
        directions = total / squares.clamp_min(torch.finfo(squares.dtype).tiny)
        return float(directions.mean()) / inputs

    def idle(self) -> Tensor:
        """(groups, inputs): which have been 0 in all that was ever seen."""
        size = self.blocks.diagonal(dim1=-2, dim2=-1).flatten(1)[:, : self.edge.shape[1]]
        return size == 0

    def widened(self, layer: GaussianLayer, places: Tensor, new: int) -> SeenInputs:
        """The same for the layer as it has become.

        A node that is new was not heard, but would have said something to earlier tasks: it is
        taken for an average one, that varies independently of the others. So the weights that
        listen to it are held, near 0, by the nodes that they lead to.

        Args:
            layer: of one group, or with as many inputs as before.
            places: (channels now,) the old place of each, or `new`.
            new: stands for an input that was not there.
        """
        wide = SeenInputs(layer)
        wide.tasks.copy_(self.tasks)
        wide.corner.copy_(self.corner)
        if self.words or self.edge.shape[0] > 1:
            wide.edge.copy_(self.edge)
            wide.blocks.copy_(self.blocks)
            return wide
        each = wide.edge.shape[1] // len(places)  # positions of a kernel
        places = torch.where(places == new, new, places * each).repeat_interleave(each)
        steps = torch.arange(each, device=places.device).repeat(len(places) // each)
        known, old = places != new, places.clamp_min(0) + steps
        old = torch.where(known, old, 0)
        before = torch.block_diag(*self.blocks[0])
        wide.edge.copy_(torch.where(known, self.edge[:, old], self.edge.mean()))
        # what does not covary: E[x y] = E[x] E[y]
        apart = wide.edge.T @ wide.edge / self.corner.clamp_min(torch.finfo(self.edge.dtype).tiny)
        whole = torch.where(known & known[:, None], before[old][:, old], apart)
        size = before.diagonal()[: self.edge.shape[1]].mean()
        whole.diagonal().copy_(torch.where(known, whole.diagonal(), size))
        for number, begin in enumerate(range(0, len(places), wide.width)):
            part = whole[begin : begin + wide.width, begin : begin + wide.width]
            wide.blocks[0, number, : len(part), : len(part)] = part
        return wide


def forward_calls(
    model: nn.Module, task: Task | None, inputs: Inputs, recent: RecentCalls, head: int
) -> Iterator[Any]:
    """Forward passes over a finished task: over `inputs`, or about `EXAMPLES` examples of `task`,
    or, in a loop that names neither, over what the model was last trained on."""
    if inputs is not None:
        for batch in inputs:
            yield lambda batch=batch: run(model, batch, head)
    elif task is not None:
        device = next(model.parameters()).device
        for prepared in present().dealt(iterate(sample(task), 256)):
            placed = prepared.to(device)
            yield lambda placed=placed: run(model, placed.inputs, placed.task)
    else:
        precision = next(model.parameters()).dtype
        for call in recent.calls:
            arguments, keywords = tree_map(partial(_lengthened, precision), call)
            yield lambda a=arguments, k=keywords: model(*a, **k)


def _lengthened(precision: torch.dtype, value: Any) -> Any:
    """What a loop shortened for autocast, which is over."""
    short = isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.to(precision) if short else value


def sample(task: Task) -> Any:
    """`EXAMPLES` of a task's examples, evenly spaced; all of those that cannot be picked."""
    data = task.train
    if isinstance(data, FromLoader) or len(data) <= EXAMPLES:
        return data
    return data.subset(torch.linspace(0, len(data) - 1, EXAMPLES).long())


class RecentCalls:
    """What a model was last called with while it was trained; it costs no memory of its own until
    the loop lets go of its batches. A copy remembers nothing.

    >>> calls = RecentCalls()
    >>> net = nn.Linear(2, 1)
    >>> calls.listen_to(net)
    >>> _ = net(torch.zeros(3, 2))
    >>> len(calls.calls)
    1
    """

    def __init__(self) -> None:
        self.calls: deque[tuple[tuple[Any, ...], dict[str, Any]]] = deque(maxlen=_REMEMBERED_CALLS)

    def see(self, model: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A hook before the model's forward pass."""
        if not (model.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
            return
        self.calls.append((arguments, keywords))
        size = sum(_bytes(each) for each in tree_leaves((arguments, keywords)))
        while len(self.calls) > 1 and size * len(self.calls) > _REMEMBERED_BYTES:
            self.calls.popleft()

    def listen_to(self, model: nn.Module) -> None:
        """From now on remember what `model` is called with."""
        model.register_forward_pre_hook(self.see, with_kwargs=True)

    @classmethod
    def left_alone(cls, model: nn.Module) -> nn.Module:
        """`model`, a copy of one that is listened to, without that."""
        for key, hook in list(model._forward_pre_hooks.items()):
            if isinstance(getattr(hook, "__self__", None), cls):
                del model._forward_pre_hooks[key]
                model._forward_pre_hooks_with_kwargs.pop(key, None)
        return model

    def clear(self) -> None:
        """The task is over."""
        self.calls.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __getstate__(self) -> dict[str, Any]:
        return {"calls": deque(maxlen=_REMEMBERED_CALLS)}


def _bytes(value: Any) -> int:
    return math.prod(value.shape) * value.element_size() if isinstance(value, Tensor) else 0
