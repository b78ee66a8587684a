"""What is known of each node after a task: how sure UCL is of it, or whether HAT uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from uclearn.measures.capacity import QUANTILES
from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import Wrapper, sigmas_by_layer


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
