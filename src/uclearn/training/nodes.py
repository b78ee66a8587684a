"""What a run records of a method beside its scores: the state of its nodes, and how many numbers it
keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from uclearn.measures.capacity import QUANTILES
from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import Wrapper, sigmas_by_layer
from uclearn.session import Journal


class NodeJournal:
    """A journal that also records, after every evaluation, what is known of the nodes."""

    def __init__(self, journal: Journal, method: Method) -> None:
        self._journal, self._method = journal, method

    @property
    def position(self) -> int:
        """How many events are recorded."""
        return self._journal.position

    def append(self, event: str, details: dict[str, Any], /) -> None:
        """Record an event, and after an evaluation the nodes."""
        self._journal.append(event, details)
        if event == "evaluation" and (states := node_states(self._method)) is not None:
            name, layers = states
            self._journal.append(name, {"task": details["task"], **layers})

    def rewind(self, position: int, /) -> None:
        """Forget the events after the first `position`."""
        self._journal.rewind(position)


@runtime_checkable
class HasUsedNodes(Protocol):
    """A method that gives nodes away, such as HAT."""

    def used(self) -> dict[str, Tensor]:
        """Per layer (nodes,) bool: what finished tasks use."""
        ...


def node_states(method: Method) -> tuple[str, dict[str, Any]] | None:
    """The event that a run records of the nodes after each task; None: nothing is known of them.

    `nodes`: per layer `sigma_init` and `sigma`, a number for each node. `used_nodes`: per layer 0
    or 1 for each node.
    """
    if (layers := sigmas_by_layer(method)) is not None:
        return "nodes", {"layers": layers}
    while isinstance(method, Wrapper):
        method = method.method
    if isinstance(method, HasUsedNodes):
        used = {name: nodes.int().tolist() for name, nodes in method.used().items()}
        return "used_nodes", {"layers": used}
    return None


def node_digest(events: Iterable[Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """What the `nodes` events of a run come to, small enough for its summary: per layer, after each
    task, the `QUANTILES` of sigma / sigma_init over its nodes.

    >>> events = [{"event": "nodes", "layers": {"fc": {"sigma_init": 0.5, "sigma": [0.25, 1.0]}}}]
    >>> node_digest(events)["fc"][0][0], node_digest(events)["fc"][0][-1]
    (0.5, 2.0)
    """
    found: dict[str, list[list[float]]] = {}
    for event in events:
        for name, layer in event["layers"].items() if event["event"] == "nodes" else ():
            ratio = torch.tensor(layer["sigma"]) / layer["sigma_init"]
            found.setdefault(name, []).append(_short(ratio.quantile(torch.tensor(QUANTILES))))
    return found


def _short(values: Tensor) -> list[float]:
    """Four digits are plenty for a histogram, and keep the file small."""
    return [float(f"{value:.4g}") for value in values.tolist()]


def parameter_count(method: Method) -> int:
    """Numbers that a method must keep after a task to learn the next one, the network included.

    Every floating-point tensor of its state counts, down to vectors; single numbers (a weight of a
    term, a counter) do not. Nor does a tensor that is zero throughout, such as SI's path integral
    between two tasks: it begins at zero anyway.

    >>> from torch import nn
    >>> parameter_count(Method(nn.Linear(3, 2)))
    8
    """
    return sum(
        tensor.numel()
        for tensor in method.state_dict().values()
        if tensor.is_floating_point() and tensor.dim() > 0 and bool(tensor.any())
    )
