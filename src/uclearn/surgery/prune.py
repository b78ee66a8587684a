"""A smaller network that does the same job: without the nodes that no task relies on.

Whole nodes and channels go, with every weight that reads them, so what remains is an ordinary dense
network. What a sum ties together goes together or stays. A node that goes is replaced by its mean,
where the bias of what reads it can stand for that: exact where the node put out the same number
whatever it was shown. How many go is found by trying on held-out data: as many, in the order of
their scores (see `reliance`), as the accuracy allows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError
from uclearn.methods.losses import Score, correct
from uclearn.networks import run
from uclearn.surgery.anatomy import Anatomy, examine
from uclearn.surgery.reliance import arriving, scores
from uclearn.surgery.resize import Cut, Cuts, node_axis, outputs, resize, verify, whole
from uclearn.tasks import DataLike, iterate
from uclearn.topology import node_count, node_dim

LEVELS = 16
"""Sizes that are tried from the smallest network up, before the exact size is bisected."""
MEASURED = 2048
"""Examples of each data set on which activations are measured."""


@dataclass(frozen=True)
class Pruned:
    """A smaller network and what it cost."""

    network: nn.Module
    removed: dict[str, int]
    """How many nodes each layer lost; layers that lost none are left out."""
    before: tuple[float, ...]
    """The score on each data set, of the whole network."""
    after: tuple[float, ...]
    """The same for the smaller one."""


def prune(
    network: nn.Module,
    data: DataLike | Sequence[DataLike],
    tolerance: float,
    *,
    strengths: Mapping[str, Tensor] | None = None,
    keep: Iterable[str] = (),
    score: Score = correct,
    head: int | None = None,
    example: Any = None,
) -> Pruned:
    """Remove as many nodes as can go without losing more than `tolerance` on any of the `data`.

    Every data set is judged by itself, so that one task does not pay for the others. The number of
    nodes is chosen on these data: for an unbiased estimate judge the result on others.

    Args:
        network: a plain network; a copy of it is cut.
        data: held-out examples, such as one validation set for each task.
        tolerance: how much of the mean score (accuracy, between 0 and 1) may be lost.
        strengths: per layer (nodes,), as `UCL.strengths()` gives them.
        keep: layers that keep all of their nodes.
        score: (outputs, targets) -> one number per example, by default 1 where the label is right.
        head: the head that is scored; None: each example's own.
        example: a small batch of inputs; None: the first of the data.
    """
    if not 0 <= tolerance < 1:
        raise SettingError(
            f"`prune` must lie between 0 and 1, got {tolerance}. It is how much accuracy may be "
            "lost on the held-out data: 0.01 is one point."
        )
    sets = list(data) if isinstance(data, Sequence) else [data]
    if not sets or not all(map(len, sets)):
        raise SettingError("`data` must hold at least one example in each data set, got none.")
    device = next(network.parameters()).device
    example = next(_inputs(sets, device))[:2] if example is None else example
    surgeon = Surgeon(network, example, _inputs(sets, device), strengths or {}, keep)
    surgeon.rehearse()
    before = mean_scores(network, sets, score, head)
    fewest = [own - tolerance - 1e-9 for own in before]  # 0.9 - 0.1 is not quite 0.8

    def good(count: int) -> bool:
        after = mean_scores(surgeon.without(surgeon.order[:count]), sets, score, head)
        return all(own >= limit for own, limit in zip(after, fewest, strict=True))

    groups = surgeon.order[: largest(good, len(surgeon.order))]
    smaller = surgeon.without(groups)
    surgeon.verify(smaller, groups)
    after = mean_scores(smaller, sets, score, head)
    return Pruned(smaller, surgeon.removed(groups), before, after)


def mean_scores(
    network: nn.Module, sets: Sequence[DataLike], score: Score = correct, head: int | None = None
) -> tuple[float, ...]:
    """The mean score of a network on each data set, in evaluation mode; arguments as of `prune`."""
    network.eval()
    with torch.no_grad():
        return tuple(_mean_score(network, data, score, head) for data in sets)


def _mean_score(network: nn.Module, data: DataLike, score: Score, head: int | None) -> float:
    device = next(network.parameters()).device
    total = 0.0
    for batch in iterate(data, 1024):
        placed = batch.to(device)
        answers = run(network, placed.inputs, placed.task if head is None else head)
        total += float(score(answers, placed.targets).sum())
    return total / len(data)


def largest(good: Callable[[int], bool], most: int) -> int:
    """A count from 0 to `most` that is good, with a next one that is not; 0 counts as good.

    Accuracy on few examples goes up and down, so a number of levels is tried from the top before
    the last step is bisected.

    >>> largest(lambda count: count <= 5, 100)
    5
    """
    high = most + 1
    for level in range(LEVELS, 0, -1):
        low = most * level // LEVELS
        if low < high and good(low):
            break
        high = low
    else:
        low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def _inputs(sets: Sequence[DataLike], device: torch.device) -> Iterator[Tensor]:
    for data in sets:
        for batch in islice(iterate(data, 256), MEASURED // 256):
            yield batch.inputs.to(device)


class Surgeon:
    """Knows in which order the nodes of a network should go, and takes them out of copies of it.

    Nodes that are tied go together, as a group. Activations are measured on the batches `inputs`;
    the other arguments are those of `prune`.
    """

    def __init__(
        self,
        network: nn.Module,
        example: Any,
        inputs: Iterable[Any],
        strengths: Mapping[str, Tensor],
        keep: Iterable[str],
    ) -> None:
        self._network, self._example = network, example
        self._anatomy = examine(network, example)
        self._found = arriving(network, self._anatomy, inputs)
        score = scores(self._anatomy, self._found, strengths)
        kept = set(keep)
        self._anatomy.require_layers(kept, "keep")
        free = _removable(self._anatomy, score, kept)
        self.order: list[int] = sorted(free, key=lambda group: float(score[group]))
        """The groups that may go, the least relied on first."""

    def rehearse(self) -> None:
        """Take one group out of every layer that may lose any, to find out early what cannot be."""
        chosen: set[int] = set()
        for name in self._anatomy.layers:
            own = self._anatomy.groups(name)
            chosen.update([group for group in self.order if group in own][:1])
        self.verify(self.without(chosen), chosen)

    def without(self, groups: Iterable[int]) -> nn.Module:
        """A copy of the network without these groups."""
        smaller, gone = copy.deepcopy(self._network), self._gone(groups)
        modules = dict(smaller.named_modules())
        for name, reading in self._found.items():
            _fold(modules[name], gone[self._anatomy.ties.of_features[name]], reading.constant)
        resize(smaller, self._anatomy, shorten(self._anatomy, gone))
        return smaller

    def verify(self, smaller: nn.Module, groups: Iterable[int]) -> None:
        """It is wired as it was, and computes what the whole network does with constants there."""
        gone, modules = self._gone(groups), dict(smaller.named_modules())
        changed = {name: node_count(modules[name]) for name in self.removed(groups)}
        if changed:
            cuts = shorten(self._anatomy, gone)
            verify(smaller, self._example, cuts, changed, self._replaced(gone))

    def removed(self, groups: Iterable[int]) -> dict[str, int]:
        """How many nodes go from each layer that loses any."""
        nodes, topology = self._gone(groups)[self._anatomy.ties.of_nodes], self._anatomy.topology
        counts = {name: int(nodes[topology.nodes(name)].sum()) for name in self._anatomy.layers}
        return {name: lost for name, lost in counts.items() if lost}

    def _gone(self, groups: Iterable[int]) -> Tensor:
        """(groups + 1,) bool; the last stands for features that no node feeds."""
        gone = torch.zeros(self._anatomy.ties.count + 1, dtype=torch.bool)
        gone[list(groups)] = True
        return gone

    def _replaced(self, gone: Tensor) -> list[Tensor]:
        """The outputs of the whole network with the constant read wherever a node is gone."""
        with ExitStack() as hooks:
            for name, layer in self._anatomy.layers.items():
                quiet = gone[self._anatomy.ties.of_features[name]]
                if bool(quiet.any()):
                    hook = _replace(layer, quiet, self._found[name].constant)
                    hooks.enter_context(layer.register_forward_pre_hook(hook))
            return outputs(self._network, self._example)


def shorten(anatomy: Anatomy, gone: Tensor) -> Cuts:
    """The cut that takes groups out of the whole network, with every node and feature that belongs
    to them; `gone` is (groups + 1,) bool, the last of them False."""
    cuts, wiring = whole(anatomy), {}
    alive = ~gone[anatomy.ties.of_nodes]
    number = (alive.cumsum(0) - 1).tolist()
    for name, cut in cuts.items():
        features = ~gone[anatomy.ties.of_features[name]]
        nodes = cut.nodes
        if name in anatomy.layers:
            nodes = nodes[alive[anatomy.topology.nodes(name)]]
        cuts[name] = Cut(nodes, cut.features[features])
        kept = zip(anatomy.sets(name), features.tolist(), strict=True)
        wiring[name] = [frozenset(number[n] for n in sources) for sources, stays in kept if stays]
    return Cuts(cuts, wiring)


def _removable(anatomy: Anatomy, score: Tensor, keep: set[str]) -> set[int]:
    """The groups that may go: none of a layer that must stay, and never all of a layer."""
    free = set(anatomy.ties.of_nodes.tolist())
    for name in anatomy.topology.offsets:
        groups = anatomy.ties.of_nodes[anatomy.topology.nodes(name)].unique()
        if name in anatomy.layers and name not in anatomy.obstacles and name not in keep:
            groups = groups[score[groups].argmax()].reshape(1)
        free -= set(groups.tolist())
    return free


@torch.no_grad()
def _fold(layer: nn.Module, features: Tensor, constant: Tensor) -> None:
    """What these features add to every node, if they are constant, goes into the bias."""
    features = features.to(constant.device)
    if not bool(constant[features].any()):
        return
    weight = layer.weight
    assert isinstance(weight, Tensor)
    pairs = weight.movedim(node_axis(layer), 0).flatten(2).sum(2) if weight.dim() > 2 else weight
    added = pairs[:, features] @ constant[features].to(weight.dtype)
    bias: Any = layer.bias
    layer.bias = nn.Parameter(added if bias is None else bias + added, requires_grad=False)


def _replace(layer: nn.Module, quiet: Tensor, constant: Tensor) -> Any:
    shape = (-1,) + (1,) * (-1 - node_dim(layer))

    def hook(module: nn.Module, arguments: Any) -> Any:
        first, *others = arguments
        gone, values = quiet.view(shape).to(first.device), constant.view(shape).to(first)
        return torch.where(gone, values, first), *others

    return hook
