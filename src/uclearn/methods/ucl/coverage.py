"""What of a model UCL holds, what it does not, and why."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from uclearn.gaussian import Survey, require_convertible, survey
from uclearn.gaussian.survey import few
from uclearn.methods.parts.wrapper import running_on
from uclearn.networks import run_trunk
from uclearn.topology import Topology, trace

ENOUGH = 0.9
"""Of the trainable weights; below, a method says so when it is built."""


def follow(model: nn.Module, example: Any, found: Survey) -> Topology:
    """The nodes of a model, as far as they can be followed."""
    norms = {
        name: norm for name, norm in found.norms.items() if list(norm.parameters(recurse=False))
    }
    with running_on(example):
        return trace(
            model,
            example,
            found.layers,
            followed=norms,
            opaque=found.opaque,
            dims=found.dims,
            strict=False,
            call=run_trunk,
        )


def followed(
    model: nn.Module, example: Any, plain: Iterable[str]
) -> tuple[Topology, tuple[str, ...]]:
    """How nodes run through a model before it is converted, and which of its layers noise would not
    reach: those that are never called, but whose weights are used."""
    found = survey(model, plain, strict=False)
    require_convertible(found)
    topology = follow(model, example, found)
    apart = (topology.outside & topology.unreached) | topology.strange
    loose = tuple(sorted(apart & found.layers.keys()))
    if loose:
        found = survey(model, plain, strict=False, loose=loose)
        require_convertible(found)
        topology = follow(model, example, found)
    return topology, loose


@dataclass(frozen=True)
class Coverage:
    """How the trainable weights of a model are held; heads of single tasks do not count.

    >>> Coverage(by_nodes=90, by_themselves=5, free={"0": (5, "named in `plain`")}).share
    0.95
    """

    by_nodes: int
    """Weights of layers and normalisations, held as firmly as their nodes are certain."""
    by_themselves: int
    """Parameters of no known node, held row by row by what is found to hang on them when a task
    ends; where nothing is measured, as firmly as nodes are on average."""
    free: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """By the name of a module or parameter how many weights are not held, and why."""
    loose: Mapping[str, str] = field(default_factory=dict)
    """By the name of a module why its parameters are held by themselves."""
    cuts: Sequence[str] = ()
    """Where nodes are lost from sight, so that what comes behind does not know what feeds it."""

    @property
    def total(self) -> int:
        """Trainable weights."""
        return self.by_nodes + self.by_themselves + sum(count for count, _ in self.free.values())

    @property
    def share(self) -> float:
        """Of them, held in one way or the other."""
        return (self.by_nodes + self.by_themselves) / self.total if self.total else 1.0

    @classmethod
    def of(
        cls, model: nn.Module, found: Survey, topology: Topology, heads: Iterable[str]
    ) -> Coverage:
        """Count.

        Args:
            model: before conversion.
            found: what conversion made of it.
            topology: how its nodes were followed.
            heads: names of modules that belong to single tasks.
        """
        sizes = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}
        outside = tuple(f"{name}." for name in heads)
        sizes = {name: size for name, size in sizes.items() if not name.startswith(outside)}
        with_nodes = {*found.layers, *found.norms}
        loose = {
            f"{place}.{name}".lstrip(".")
            for place, _, own in found.loose_parameters()
            for name in own
        }
        aliases: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            aliases.setdefault(id(parameter), []).append(name)
        parameters = dict(model.named_parameters())
        by_nodes = by_themselves = 0
        free: dict[str, tuple[int, str]] = {}
        for name, size in sizes.items():
            names = aliases[id(parameters[name])]  # of tied weights all of them
            if name in found.free:
                free[name] = (size, "named in `plain`")
            elif any(each.rpartition(".")[0] in with_nodes for each in names):
                by_nodes += size
            elif any(each in loose for each in names):
                by_themselves += size
            else:
                free[name] = (size, "below a module named in `plain`")
        return cls(by_nodes, by_themselves, free, dict(found.reasons), _cuts(found, topology))

    def warn_if_little(self) -> None:
        """Below `ENOUGH`, output layers aside, somebody should know."""
        if self.share < ENOUGH:
            names = few(list(self.free))
            warnings.warn(
                f"UCL holds {self.share:.0%} of the trainable weights. Not held: {names} (named in "
                "`plain`). That suits heads of single tasks; other modules need not be named: see "
                "`method.coverage()`.",
                stacklevel=3,
            )

    def __str__(self) -> str:
        lines = [
            f"{self.share:.1%} of {self.total:,} trainable weights are held: "
            f"{self.by_nodes:,} by their nodes, {self.by_themselves:,} by themselves."
        ]
        lines += [f"not held: {few(names)}: {why}" for why, names in self._grouped()]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.loose.items():
            reasons.setdefault(reason, []).append(name or "the model itself")
        lines += [f"by themselves: {few(names)}: {reason}" for reason, names in reasons.items()]
        lines += [f"nodes are lost from sight: {cut}" for cut in self.cuts]
        return "\n".join(lines)

    def _grouped(self) -> Iterable[tuple[str, list[str]]]:
        groups: dict[str, list[str]] = {}
        for name, (_, why) in self.free.items():
            groups.setdefault(why, []).append(name)
        return groups.items()


def _cuts(found: Survey, topology: Topology) -> list[str]:
    by_operation: dict[str, list[str]] = {}
    for place, operation in topology.lost.items():
        by_operation.setdefault(operation, []).append(place)
    cuts = [f"by `{operation}` in {few(places)}" for operation, places in by_operation.items()]
    if topology.swallowed and found.opaque:
        cuts.append(f"in modules that are frozen or named in `plain`: {few(list(found.opaque))}")
    if topology.unreached:
        cuts.append(f"not reached by the example: {few(sorted(topology.unreached))}")
    used = sorted(topology.outside - topology.unreached)
    if used:
        cuts.append(f"weights used outside of their layer: {few(used)}")
    return cuts
