"""Importance from the gradients of single examples, without a loop over them.

    importance = sum over groups of  n * f(mean gradient of the group)  /  number of examples

with n the size of the group, f the square (Fisher information) or the absolute value (MAS), and
groups of one example each where it is to be exact. Processes that learn one model each measure
their own examples, and what they found is summed over all of them.

Hooks note what goes into each layer, one backward pass gives the gradient of what comes out, and
the two make up every example's own gradient (`layer_gradients`). In a linear layer without
positions that is an outer product g x^T, and as f(ab) = f(a) f(b), all examples together are one
matrix product, f(g)^T f(x). What no rule covers (a bare parameter, a layer of one's own, examples
that influence each other) is found out, never guessed (`LayerUses`), and differentiated group by
group instead: as exact, but as slow as a loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.parts.layer_gradients import GradientPart, LayerUses
from uclearn.ranks import present

Measure = Literal["square", "absolute"]

BUDGET = 1 << 18
"""Numbers made at a time for the gradients of single examples: they stay in a core's cache."""
SLOW = 1000
"""Groups that are differentiated alone before somebody is told."""
PASSES = 16
"""Groups that are differentiated at a time where no rule helps."""


def importance(
    model: nn.Module,
    parameters: Sequence[nn.Parameter],
    losses: Iterable[Tensor],
    measure: Measure,
    group: int | None = 1,
) -> list[Tensor]:
    """One tensor per parameter: the mean over examples of f(gradient).

    Args:
        model: the network that the losses go through.
        parameters: those that importance is asked for.
        losses: batches of per-example losses, (batch,), with graph, made while iterating.
        measure: f, `"square"` or `"absolute"`.
        group: how many consecutive examples are averaged before f, whatever the size of the
            batches they come in (a last, incomplete group counts by its size); None: each batch as
            it comes.

    >>> net, x = nn.Linear(1, 1, bias=False), torch.tensor([[1.0], [3.0]])
    >>> importance(net, [net.weight], (net(x)[:, 0] for _ in range(1)), "square")  # (1 + 9) / 2
    [tensor([[5.]])]
    """
    gauge = _Gauge(parameters, measure, group)
    with LayerUses(model, parameters) as uses, torch.enable_grad():
        for batch in losses:
            _check_losses(batch)
            gauge.add(batch, uses.parts(batch))
    return gauge.result()


class Span(NamedTuple):
    """Consecutive examples of a batch that make up whole groups, or a piece of one."""

    examples: slice
    groups: int
    opens: bool = True
    """Its first group begins here; otherwise an earlier batch left one unfinished."""
    closes: bool = True
    """Its last group is complete."""

    @property
    def length(self) -> int:
        """Examples of a group that are in this batch."""
        return int(self.examples.stop - self.examples.start) // self.groups

    def pieces(self, most: int) -> Iterator[Span]:
        """The same in pieces of at most so many groups."""
        for first in range(0, self.groups, most):
            groups = min(most, self.groups - first)
            start = self.examples.start + first * self.length
            yield self._replace(examples=slice(start, start + groups * self.length), groups=groups)


class _Gauge:
    """Adds up batch by batch."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], measure: Measure, group: int | None
    ) -> None:
        self.parameters, self.measure, self.group = parameters, measure, group
        self.totals = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.begun: list[Tensor | None] = [None] * len(parameters)  # sums of an unfinished group
        self.pending = 0  # examples in it
        on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
        self.budget = BUDGET if on_cpu else 64 * BUDGET  # elsewhere few large kernels
        self.examples = 0
        self.one_by_one = 0  # groups that were differentiated alone

    def add(self, losses: Tensor, parts: Sequence[list[GradientPart] | None]) -> None:
        """Take in a batch of losses, (batch,), and what makes up its gradients."""
        count = len(losses)
        spans = list(_spans(count, self.group or count, self.pending))
        for index, known in enumerate(parts):
            if known:
                self._add_parts(index, known, spans)
            elif known is not None and not spans[0].opens:  # unused: nothing joins the group
                self._take(index, torch.zeros_like(self.totals[index])[None], spans[0])
        self._differentiate([i for i, known in enumerate(parts) if known is None], losses, spans)
        self.pending = (self.pending + count) % (self.group or count)
        self.examples += count

    def result(self) -> list[Tensor]:
        """The means over the examples of all processes; a last, incomplete group counts by its
        size."""
        (examples,) = present().sum(self.examples)
        if not examples:
            raise TaskError(
                "`losses` must yield at least one batch of the finished task, got none. Without "
                "examples there is nothing to measure importance by."
            )
        for index, begun in enumerate(self.begun):
            if begun is not None:
                self.totals[index] += self._measured(begun[None], self.pending)
        present().sum_(self.totals)
        return [total / examples for total in self.totals]

    def _add_parts(self, index: int, parts: list[GradientPart], spans: Sequence[Span]) -> None:
        if self.group == 1 and len(parts) == 1 and parts[0].is_outer:
            function = torch.square if self.measure == "square" else torch.abs
            self.totals[index].addmm_(function(parts[0].gradient).T, function(parts[0].input))
            return
        for span in spans:
            each = self.totals[index].numel() + span.length * sum(part.size for part in parts)
            for piece in span.pieces(max(1, self.budget // each)):
                first, *rest = (part.of(piece.examples, piece.groups) for part in parts)
                self._take(index, sum(rest, start=first), piece)

    def _differentiate(self, indices: list[int], losses: Tensor, spans: Sequence[Span]) -> None:
        """One backward pass per group, `PASSES` at a time."""
        parameters = [self.parameters[index] for index in indices]
        for piece in (p for span in spans for p in span.pieces(PASSES) if parameters):
            chosen = losses.new_zeros(piece.groups, len(losses))
            members = torch.eye(piece.groups).repeat_interleave(piece.length, dim=1)
            chosen[:, piece.examples] = members.to(chosen)
            sums = torch.autograd.grad(
                losses, parameters, chosen, retain_graph=True, is_grads_batched=True
            )
            for index, gradients in zip(indices, sums, strict=True):
                self._take(index, gradients.detach(), piece)
            self._tell_if_slow(piece.groups, len(indices))

    def _tell_if_slow(self, groups: int, parameters: int) -> None:
        before, self.one_by_one = self.one_by_one, self.one_by_one + groups
        if before < SLOW <= self.one_by_one:
            warnings.warn(
                f"For {parameters} of {len(self.parameters)} parameters there is no closed rule, "
                "so that each example is differentiated alone: that takes as long as training with "
                "batches of 1. Pass `losses` as a function that computes them when it is called, "
                "not a list; average a few examples (EWC: `fisher_batch=20`, MAS: "
                "`per_sample=False`); or name the modules in `plain`.",
                stacklevel=2,
            )

    def _take(self, index: int, sums: Tensor, span: Span) -> None:
        """Measure (groups, *shape) summed gradients, but for a group that is not complete."""
        begun = self.begun[index]
        if not span.opens and begun is not None:
            sums = sums + begun
        self.begun[index] = None if span.closes else sums[0].clone()
        if span.closes:
            self.totals[index] += self._measured(sums, self.group or span.length)

    def _measured(self, sums: Tensor, size: int) -> Tensor:
        """n f(sum / n), summed over groups."""
        if self.measure == "square":
            return sums.square().sum(0).div_(size)
        return sums.abs().sum(0)


def _spans(count: int, group: int, pending: int) -> Iterator[Span]:
    """A batch of `count` examples as groups, of which the first has `pending` examples already."""
    start = 0
    if pending:
        start = min(group - pending, count)
        yield Span(slice(0, start), 1, opens=False, closes=pending + start == group)
    whole = (count - start) // group
    if whole:
        yield Span(slice(start, start + whole * group), whole)
    start += whole * group
    if start < count:
        yield Span(slice(start, count), 1, closes=False)


def _check_losses(losses: Tensor) -> None:
    if losses.dim() != 1 or not len(losses):
        raise TaskError(
            f"`losses` must yield one loss per example, shape (batch,), got shape "
            f"{tuple(losses.shape)}. Use reduction='none' in the loss function."
        )
    if not losses.requires_grad:
        raise TaskError(
            "`losses` must yield losses with a graph through `method.model`, got a tensor that "
            "does not require gradients. Compute them outside torch.no_grad()."
        )
