"""One look at a task that is over, or at what a network knew before: what each layer is given, and
how much hangs on each node and on each row of the parameters of no node.

Where sigma comes to rest while a task is learned (`uclearn.methods.ucl.rules`), a node's strength
has gained sigma_init^2 B H_i / (2 beta), with H_i the curvature of the loss along the weights of
node i, summed over them. Of a finished network that can be had at once:

    H_i = mean over examples of  | sum over places of  x d surprise / d output_i |^2

where the square of the surprise's gradient is, on average, the Fisher information that the
network's own answers hold: no labels are needed. Places (of a convolution, or of words in a
sentence) are summed before the square, as the weights are shared by all of them.

Of a parameter whose use is not known (a recurrent layer's, a token) only the gradient of a whole
batch can be had. But the surprises of its examples have signs that know nothing of each other, so
that what they have in common vanishes on average: for row r

    H_r = mean over batches of  | sum over the batch of  d surprise / d row_r |^2 / examples

While acting the surprise is -log of the chance that an action had which was drawn: what a policy's
losses say by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.layers import GaussianEmbedding
from uclearn.methods.contract import lent
from uclearn.methods.ucl.loose import Curved
from uclearn.methods.ucl.seen import SeenInputs
from uclearn.ranks import present
from uclearn.sizes import SEEN_PIECE
from uclearn.topology import node_dim, without_shortcuts

Answers = Callable[[], Sequence[Tensor]]
"""A forward pass: what it makes of a batch, for each task that is known."""

Surprise = Callable[[Tensor], Tensor]
"""Of answers, (batch, ...): numbers, (batch,), whose squared gradients are on average the Fisher
information (see `uclearn.methods.parts.surprise`)."""


class Look(NamedTuple):
    """What was found."""

    sums: Sequence[Sequence[Tensor]] = ()
    """By layer, of what it was given (`SeenInputs.sums`)."""
    curvature: Sequence[Tensor] = ()
    """By layer, (nodes,) H_i; none where nothing was measured."""
    rows: Sequence[Curved] = ()
    """By bundle of parameters of no node, H_r and the directions of the rows."""
    batch_size: float = 0.0
    """Of the batches that were looked at, on average; 0 where nothing was measured."""


def look(
    model: nn.Module,
    layers: Sequence[GaussianLayer],
    passes: Iterable[Callable[[], Any]],
    *,
    seen: Sequence[SeenInputs] = (),
    loose: Sequence[Sequence[nn.Parameter]] = (),
    surprise: Surprise | None,
) -> Look:
    """Go through some forward passes with the mean weights, over all processes that learn the
    model.

    Args:
        model: that holds the layers.
        layers: to listen to.
        passes: each runs the model once; where something is measured, they are `Answers`.
        seen: whose memory sums are for, one for each layer, or none.
        loose: parameters of no node, those together whose rows lead to the same places.
        surprise: of the answers; None: nothing is measured.
    """
    ears = _Ears(layers, seen)
    slopes = None if surprise is None else _Slopes(layers, loose, surprise)
    measures = slopes is not None
    with ears.listening(), lent(model), without_shortcuts(), torch.set_grad_enabled(measures):
        for run in passes:
            told = run()
            if slopes is not None:
                slopes.add(told, ears.taken())
    sums = ears.sums()
    return Look(sums) if slopes is None else slopes.found()._replace(sums=sums)


class _Ears:
    """What layers are given while they are listened to, and what they say."""

    def __init__(self, layers: Sequence[GaussianLayer], seen: Sequence[SeenInputs]) -> None:
        self.layers, self.seen = layers, seen
        self._totals: list[list[Tensor]] = [[] for _ in seen]
        self._heard: list[tuple[int, tuple[Any, ...], Tensor]] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within, every forward pass of the layers counts."""
        hooks = []
        for number, layer in enumerate(self.layers):
            hooks.append(layer.register_forward_hook(self._hear(number)))
            if self.seen:
                layer.listener = self._see(number)
        try:
            yield
        finally:
            for hook, layer in zip(hooks, self.layers, strict=True):
                hook.remove()
                layer.listener = None

    def taken(self) -> list[tuple[int, tuple[Any, ...], Tensor]]:
        """Of the last forward pass: number of the layer, what it was given, what it said."""
        heard, self._heard = self._heard, []
        return heard

    def sums(self) -> list[list[Tensor]]:
        """Of all that the layers were given."""
        for sums, memory in zip(self._totals, self.seen, strict=True):
            if not sums:  # no pass of this process came by the layer
                kept = (memory.corner, memory.edge, memory.blocks)
                sums += [torch.zeros_like(each) for each in kept]
            if present().size > 1:
                present().sum_(sums)
            if not all(bool(each.isfinite().all()) for each in sums):
                raise TaskError(
                    "Cannot end the task: what the layers were given is not finite. Look for NaN "
                    "or inf in the data. What earlier tasks left is unchanged."
                )
        return self._totals

    def _hear(self, number: int) -> Any:
        def hear(layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            if torch.is_grad_enabled():
                self._heard.append((number, arguments, output))

        return hear

    def _see(self, number: int) -> Any:
        @torch.no_grad()
        def see(input: Tensor) -> None:
            new = self.seen[number].sums(self.layers[number].inputs_seen(input))
            known = self._totals[number] or [torch.zeros_like(each) for each in new]
            self._totals[number] = [old.add_(each) for old, each in zip(known, new, strict=True)]

        return see


class _Slopes:
    """How much answers hang on nodes and rows, summed over batches."""

    def __init__(
        self,
        layers: Sequence[GaussianLayer],
        loose: Sequence[Sequence[nn.Parameter]],
        surprise: Surprise,
    ) -> None:
        self.layers, self.loose, self.surprise = layers, loose, surprise
        self._nodes = [torch.zeros_like(layer.rho) for layer in layers]
        self._rows = [Curved.nothing(together) for together in loose]
        device = [*self._nodes, *(rows for rows, _ in self._rows)][0].device
        self._counts = torch.zeros(2, dtype=torch.int64, device=device)

    def add(
        self, told: Sequence[Tensor], heard: Sequence[tuple[int, tuple[Any, ...], Tensor]]
    ) -> None:
        """A batch, by its answers and what the layers were given and said."""
        parts = [self.surprise(each).sum() for each in told]
        on = [output for *_, output in heard] + [own for few in self.loose for own in few]
        found = torch.autograd.grad(torch.stack(parts).sum(), on, allow_unused=True)
        slopes = cast("Sequence[Tensor | None]", found)
        for (number, given, _), slope in zip(heard, slopes, strict=False):
            if slope is not None:
                self._nodes[number] += _by_node(self.layers[number], given, slope)
        rest = iter(zip(on[len(heard) :], slopes[len(heard) :], strict=True))
        for total, few in zip(self._rows, self.loose, strict=True):
            own = [next(rest) for _ in few]
            total.add([torch.zeros_like(p) if slope is None else slope for p, slope in own])
        self._counts += torch.tensor([len(told[0]), 1], device=self._counts.device)

    def found(self) -> Look:
        """Averages over the examples of all processes."""
        if present().size > 1:
            parts = [part for each in self._rows for part in each]
            present().sum_([*self._nodes, *parts, self._counts])
        examples, batches = self._counts.tolist()
        nodes = [each / max(examples, 1) for each in self._nodes]
        rows = [Curved(*(part / max(examples, 1) for part in each)) for each in self._rows]
        return Look((), nodes, rows, examples / max(batches, 1))


@torch.no_grad()
def _by_node(layer: GaussianLayer, given: tuple[Any, ...], gradient: Tensor) -> Tensor:
    """(nodes,) the squared length of the gradient of a node's weights, summed over examples."""
    nodes_last = gradient.movedim(node_dim(layer), -1)
    if isinstance(layer, GaussianEmbedding):  # as if a word came once in an example
        return (nodes_last * layer.length(*given)).flatten(0, -2).square().sum(0)
    seen = layer.inputs_seen(given[0].detach())
    groups, examples = seen.shape[:2]
    pull = nodes_last.reshape(examples, -1, groups, nodes_last.shape[-1] // groups).movedim(2, 0)
    places, nodes = pull.shape[2:]
    inputs = seen[0].numel() // (examples * places)
    total = pull.new_zeros(groups, nodes)
    piece = max(1, SEEN_PIECE // (groups * max(places * (inputs + nodes), 1)))
    for x, g in zip(seen.split(piece, 1), pull.split(piece, 1), strict=True):
        x = x.reshape(groups, -1, places, inputs).to(g.dtype)
        if places * (inputs + nodes) < inputs * nodes:  # g (x x^T) g^T
            total += ((x @ x.mT @ g) * g).sum((1, 2))
        else:
            total += (g.mT @ x).square().sum((1, 3))
    return total.flatten()
