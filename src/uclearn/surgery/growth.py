"""More nodes for a network that has learned, without a change in what it computes.

The weights that lead out of a new node are 0 at first, so nobody hears it; those that lead into it
are drawn as He does. A convolution gets new channels, a batch norm neutral new features, every
head new inputs of weight 0. What is tied by a sum (residual connections) is widened together. What
a method remembers is extended for nodes that it did not know before.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, UnsupportedLayerError
from uclearn.methods.contract import Method
from uclearn.methods.facts import Facts
from uclearn.methods.parts.wrapper import innermost
from uclearn.methods.registry import METHODS
from uclearn.surgery.anatomy import Anatomy, examine
from uclearn.surgery.resize import (
    NEW,
    Cut,
    Cuts,
    cut_values,
    node_axis,
    outputs,
    pick,
    resize,
    verify,
    whole,
)
from uclearn.topology import node_count

By = float | Mapping[str, int]
M = TypeVar("M", bound=Method)


def widen(method: M, by: By, example: object, *, seed: int = 0) -> M:
    """A copy of `method` with more nodes that computes the same; build its optimiser anew.

    Under UCL the new nodes are free: they start with the layer's initial sigma, that is with
    strength 1, and their anchors are the weights that they start with. By the paper's rule a weight
    is held by the stronger of the two nodes that it joins. So what leads from a new node into a
    certain old one is held near 0 as firmly as the old one is, which protects the old tasks; what
    leads into other free nodes and into heads is not. So it is where outputs are held: a new node
    is taken to have said to old inputs what nodes of its layer say on average. Under EWC, SI, MAS
    and RWalk new weights have no importance yet.

    Args:
        method: any method whose memory can be extended; left as it is. Best between two tasks.
        by: a factor for every layer that can be widened (1.5: half as many again), or how many
            nodes to add to each layer by name; layers that are added to a named one grow with it.
        example: a small batch of inputs, as the method was built with.
        seed: for the new weights.

    >>> from uclearn import UCL
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> method = UCL(net, example=torch.zeros(1, 4))
    >>> wide = widen(method, 1.5, torch.zeros(1, 4))
    >>> wide.model[0], [tuple(s.shape) for s in wide.strengths().values()]
    (GaussianLinear(in_features=4, out_features=12, bias=True), [(12,), (2,)])
    """
    extend_memory = required_grower(type(innermost(method)))
    grown = copy.deepcopy(method)
    extend_memory(innermost(grown), _widen(grown.model, by, example, seed))
    return grown


def widen_network(model: nn.Module, by: By, example: object, *, seed: int = 0) -> nn.Module:
    """The same for a network alone: a wider copy."""
    grown = copy.deepcopy(model)
    _widen(grown, by, example, seed)
    return grown


def _widen(model: nn.Module, by: By, example: object, seed: int) -> Growth:
    anatomy = examine(model, example)
    added = additions(anatomy, by)
    cuts = lengthen(anatomy, added)
    before = outputs(model, example)
    resize(model, anatomy, cuts)
    generator = torch.Generator().manual_seed(seed)
    for name in added:
        _draw(anatomy.layers[name], cuts.of[name], generator)
    changed = {name: node_count(anatomy.layers[name]) for name in added}
    verify(model, example, cuts, changed, before)
    return Growth(anatomy, cuts, example)


def additions(anatomy: Anatomy, by: By) -> dict[str, int]:
    """How many nodes each layer gets; layers that get none are left out."""
    wanted = dict(by) if isinstance(by, Mapping) else _by_factor(anatomy, by)
    anatomy.require_layers(wanted, "by")
    for name, count in wanted.items():
        _check(anatomy, name, count)
    for name in list(wanted):
        for mate in _mates(anatomy, name):
            wanted.setdefault(mate, wanted[name])
    added = {name: wanted[name] for name in anatomy.layers if wanted.get(name)}
    if not added:
        raise SettingError(
            f"`by` must add at least one node, got {by!r}. Give a factor above 1, or a number of "
            "nodes by layer, such as {'0': 16}."
        )
    return added


def _by_factor(anatomy: Anatomy, factor: float) -> dict[str, int]:
    if not (factor > 1 and math.isfinite(factor)):
        raise SettingError(
            f"`by` must be a factor above 1 and finite, got {factor}. 1.5 gives every layer half "
            "as many nodes again."
        )
    free = [
        name
        for name, layer in anatomy.layers.items()
        if name not in anatomy.obstacles and any(p.requires_grad for p in layer.parameters())
    ]
    if not free:
        reasons = "; ".join(f"`{n}`: {reason}" for n, reason in anatomy.obstacles.items())
        raise UnsupportedLayerError(f"No layer of this network can be widened: {reasons}.")
    return {name: math.ceil((factor - 1) * node_count(anatomy.layers[name])) for name in free}


def _check(anatomy: Anatomy, name: str, count: int) -> None:
    if count < 0 or count != int(count):
        raise SettingError(
            f"`by` must hold whole numbers of nodes to add, got {count} for {name!r}. To remove "
            "nodes, export with `prune`."
        )
    if name in anatomy.obstacles:
        raise UnsupportedLayerError(
            f"The layer `{name}` cannot be widened: {anatomy.obstacles[name]}. Leave it out of "
            f"`by`; these can be widened: "
            f"{', '.join(n for n in anatomy.layers if n not in anatomy.obstacles) or 'none'}."
        )


def _last(anatomy: Anatomy, name: str) -> int:
    return anatomy.topology.offsets[name] + node_count(anatomy.layers[name]) - 1


def _mates(anatomy: Anatomy, name: str) -> list[str]:
    """The layers whose last node is tied to that of layer `name`."""
    group = anatomy.ties.of_nodes
    own = group[_last(anatomy, name)]
    return [other for other in anatomy.layers if group[_last(anatomy, other)] == own]


def lengthen(anatomy: Anatomy, added: Mapping[str, int]) -> Cuts:
    """Where new nodes turn up: behind the last node of their layer, wherever that one turns up."""
    cuts, wiring = whole(anatomy), {}
    numbers = _Numbers(anatomy, added)
    for name in cuts:
        index, sets = numbers.spread(name)
        nodes = torch.cat([cuts[name].nodes, torch.full((added.get(name, 0),), NEW)])
        cuts[name] = Cut(nodes, torch.tensor(index, dtype=torch.int64))
        wiring[name] = sets
    return Cuts(cuts, wiring)


class _Numbers:
    """The numbering of nodes before and after."""

    def __init__(self, anatomy: Anatomy, added: Mapping[str, int]) -> None:
        self._anatomy, self._added = anatomy, added
        self._new: dict[int, int] = {}
        """Old number -> new number."""
        self._ends: dict[int, str] = {}
        """Last nodes of the layers that grow."""
        shift = 0
        for name in sorted(anatomy.topology.offsets, key=anatomy.topology.offsets.__getitem__):
            nodes = range(anatomy.topology.total)[anatomy.topology.nodes(name)]
            self._new.update({node: node + shift for node in nodes})
            shift += added.get(name, 0)
            if added.get(name):
                self._ends[nodes[-1]] = name

    def spread(self, name: str) -> tuple[list[int], list[frozenset[int]]]:
        """The features of layer `name`, each with its old number and the nodes that feed it."""
        index: list[int] = []
        found: list[frozenset[int]] = []
        sets = self._anatomy.sets(name)
        start = 0
        for place, nodes in enumerate(sets):
            index.append(place)
            found.append(frozenset(self._new[node] for node in nodes))
            if place + 1 < len(sets) and sets[place + 1] == nodes:
                continue  # a channel's positions, one after the other, stay together
            for step in range(1, self._growing(name, nodes) + 1):
                fed = frozenset(self._new[node] + step for node in nodes)
                index += [NEW] * (place + 1 - start)
                found += [fed] * (place + 1 - start)
            start = place + 1
        return index, found

    def _growing(self, name: str, nodes: frozenset[int]) -> int:
        """How many new features follow one that is fed by these nodes."""
        ends = [self._ends[node] for node in nodes if node in self._ends]
        if not ends or name.startswith("<output"):
            return 0
        counts = {self._added[end] for end in ends}
        if len(ends) < len(nodes) or len(counts) > 1:
            owners = self._anatomy.owners(set(nodes))
            told = ", ".join(f"`{o}` by {self._added.get(o, 0)}" for o in owners)
            raise UnsupportedLayerError(
                f"These layers meet in one feature at the input of `{name}` and must grow by the "
                f"same number of nodes, each at its end, but would grow: {told}. Name them in `by` "
                "with equal numbers, or leave them out."
            )
        return counts.pop()


@torch.no_grad()
def _draw(layer: nn.Module, cut: Cut, generator: torch.Generator) -> None:
    """What leads into the new nodes: uniform with He's variance 2 / fan-in, biases 0."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    fresh = (cut.nodes == NEW).nonzero().flatten().to(weight.device)
    rows = weight.movedim(node_axis(layer), 0)
    old = rows[: len(rows) - len(fresh)]
    embedding = isinstance(layer, nn.Embedding)  # one row is read at a time: as large as the others
    bound = math.sqrt(3) * float(old.std()) if embedding else math.sqrt(6 / rows[0].numel())
    drawn = torch.empty((len(fresh), *rows.shape[1:])).uniform_(-bound, bound, generator=generator)
    rows[fresh] = drawn.to(weight)
    if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
        weight[layer.padding_idx] = 0


# -- what a method remembers ------------------------------------------------------------------


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

    def is_old(self, module: nn.Module, name: str) -> Tensor:
        """Where the parameter `name` was there before, in its shape."""
        shape = getattr(module, name).shape
        cut = self.of(module)
        nodes, features = (~self.is_new(index) for index in (cut.nodes, cut.features))
        if len(shape) == 1:
            return nodes
        first, second = (nodes, features) if node_axis(module) == 0 else (features, nodes)
        grid = first[:, None] & second
        return grid.view(*grid.shape, *[1] * (len(shape) - 2)).expand(shape)

    def picked(self, values: Tensor, index: Tensor, fill: float, dim: int = 0) -> Tensor:
        """`values` at the old places that `index` (of a cut) names, with `fill` for new ones."""
        return pick(values, index, fill, dim)

    def is_new(self, index: Tensor) -> Tensor:
        """Where an index (of a cut) stands for something new."""
        return index == NEW

    def extended(self, module: nn.Module, name: str, anchor: Tensor) -> Tensor:
        """An anchor of the parameter `name`: where it is new, the parameter as it is now."""
        old = self.padded(module, name, torch.ones_like(anchor))
        now = getattr(module, name).detach()
        return torch.where(old > 0, self.padded(module, name, anchor), now)


Grower = Callable[[Any, Growth], None]

_TAUGHT: dict[type[Method], Grower] = {}


def required_grower(kind: type[Method]) -> Grower:
    """Refuses a method whose memory nobody knows how to extend."""
    if (grower := _grower(kind)) is not None:
        return grower
    kinds: list[Any] = [*METHODS.sound()[0].values(), *_TAUGHT]
    known = ", ".join(each.__name__ for each in kinds if _grower(each) is not None)
    raise UnsupportedLayerError(
        f"A network under {kind.__name__} cannot be widened: it is not known what its memory "
        f"should hold for new nodes. These can: {known}; "
        "uclearn.surgery.growth.register_growth teaches it another."
    )


def register_growth(kind: type[Method], grower: Grower) -> None:
    """Teach widening a method of yours: `grower(method, growth)` extends its memory in place. A
    class of your own can say it itself, in its `facts`."""
    _TAUGHT[kind] = grower


def _grower(kind: Any) -> Grower | None:
    """By exact type: a subclass may remember more than the class whose facts it inherits."""
    own: Facts | None = vars(kind).get("facts")
    return _TAUGHT.get(kind, own.grow if own is not None else None)
