"""What a network knew before it was given to UCL: measured, since it was not learned under noise.

Where sigma comes to rest while a task is learned (`uclearn.methods.ucl.rules`), a node's strength
has gained sigma_init^2 B H_i / (2 beta), with H_i the curvature of the loss along the weights of
node i, summed over them. Of a finished network that can be had at once:

    H_i = mean over examples of  | sum over places of  x d surprise / d output_i |^2

where the square of the surprise's gradient is, on average, the Fisher information that the
network's own answers hold: no labels are needed. Places (of a convolution, or of words in a
sentence) are summed before the square, as the weights are shared by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.layers import GaussianEmbedding
from uclearn.methods.contract import Inputs, lent
from uclearn.methods.parts.surprise import surprise
from uclearn.methods.ucl.seen import RecentCalls, sample
from uclearn.networks import MultiHead, answer, call
from uclearn.ranks import present
from uclearn.sizes import SEEN_PIECE
from uclearn.tasks import iterate
from uclearn.tasks.task import Task
from uclearn.topology import node_dim

Answers = Callable[[], Sequence[Tensor]]
"""A forward pass: what it makes of a batch, for each task that is known."""


class Measured(NamedTuple):
    """Of a finished network, layer by layer."""

    curvature: list[Tensor]
    """(nodes,) H_i"""
    batch_size: float
    """Of the batches that were looked at, on average."""


def measured(
    model: nn.Module,
    layers: Sequence[GaussianLayer],
    passes: Iterable[Answers],
    classes: bool,
    *,
    by_chance: bool = True,
) -> Measured:
    """How much hangs on each node, by the network's own answers.

    Args:
        model: that holds the layers; its mean weights are used.
        layers: to measure.
        passes: each gives answers, with graph.
        classes: whether answers are logits.
        by_chance: whether signs are drawn (see `surprise`), or follow from the answers: then any
            number of processes finds the same.
    """
    sums = [torch.zeros_like(layer.rho) for layer in layers]
    counts = torch.zeros(2, dtype=torch.int64, device=sums[0].device)  # examples, batches
    heard: list[tuple[int, tuple[Any, ...], Tensor]] = []
    numbers = {id(layer): number for number, layer in enumerate(layers)}

    def hear(layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        heard.append((numbers[id(layer)], arguments, output))

    generator = torch.Generator().manual_seed(0) if by_chance else None
    hooks = [layer.register_forward_hook(hear) for layer in layers]
    try:
        with lent(model), torch.enable_grad():
            for answers in passes:
                heard.clear()
                told = answers()
                total = torch.stack([surprise(each, classes, generator).sum() for each in told])
                outputs = [output for *_, output in heard]
                gradients = torch.autograd.grad(total.sum(), outputs, allow_unused=True)
                for (number, given, _), gradient in zip(heard, gradients, strict=True):
                    if gradient is not None:
                        sums[number] += _by_node(layers[number], given, gradient)
                counts += torch.tensor([len(told[0]), 1], device=counts.device)
    finally:
        for hook in hooks:
            hook.remove()
    if present().size > 1:
        present().sum_([*sums, counts])
    examples, batches = counts.clamp_min(1).tolist()
    return Measured([each / examples for each in sums], examples / batches)


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


def passes_over(
    model: nn.Module, task: Task | None, inputs: Inputs, recent: RecentCalls
) -> Iterator[Answers]:
    """Forward passes over `inputs`, over about `EXAMPLES` examples of `task`, or, in a loop that
    names neither, over what the model was last called with."""
    if inputs is not None:
        for batch in inputs:
            yield partial(_answers, model, batch)
    elif task is not None:
        device = next(model.parameters()).device
        for prepared in present().dealt(iterate(sample(task), 256)):
            yield partial(_answers, model, prepared.to(device).inputs)
    else:
        for given, keywords in recent.calls:
            yield partial(_answers, model, given[0] if given else None, (given, keywords))


def _answers(model: nn.Module, inputs: Any, as_called: Any = None) -> Sequence[Tensor]:
    """What a model says to a batch: by each of its heads; without heads yet, what enters them."""
    if isinstance(model, MultiHead):
        features = model.embed(inputs)
        return [head(features) for head in model.heads] or [features]
    if as_called is not None:
        given, keywords = as_called
        said = model(*given, **keywords)
    else:
        said = call(model, inputs)
    return [answer(said)]


def answers_to(calls: Iterable[Callable[[], Any]]) -> Iterator[Answers]:
    """The same forward passes, with what the model answers where that is a choice among classes."""
    for one in calls:
        yield partial(_choice, one)


def _choice(one: Callable[[], Any]) -> Sequence[Tensor]:
    found = answer(one())
    return [found if found.dim() > 1 else found.unsqueeze(1)]  # one class alone is no choice


def strengths_by(curvature: Tensor, initial: float, beta: float, batch_size: float) -> Tensor:
    """(nodes,) what sigma_init / sigma would have become while batches of that size were learned.

    By hand: sigma_init^2 B H / (2 beta) = 0.01 * 100 * 3 / (2 * 0.5) = 3, and 1 + 3 = 2^2.

    >>> strengths_by(torch.tensor([0.0, 3.0]), initial=0.1, beta=0.5, batch_size=100)
    tensor([1., 2.])
    """
    return (1 + curvature * (initial**2 * batch_size / (2 * beta))).sqrt()
