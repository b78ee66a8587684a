"""What is known of each node after a task: how sure UCL is of it, or whether HAT uses it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import Wrapper


@runtime_checkable
class HasUncertainties(Protocol):
    """A method with an uncertainty for each node, such as UCL."""

    def sigmas(self) -> dict[str, Tensor]:
        """Per layer, (nodes,)."""
        ...

    def strengths(self) -> dict[str, Tensor]:
        """Per layer initial sigma / sigma, (nodes,)."""
        ...


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
    while isinstance(method, Wrapper):
        method = method.method
    if isinstance(method, HasUncertainties):
        strengths = method.strengths()
        layers = {
            name: {
                # strength is sigma_init / sigma, and all nodes of a layer began alike
                "sigma_init": _short(sigma[:1] * strengths[name][:1])[0],
                "sigma": _short(sigma),
            }
            for name, sigma in method.sigmas().items()
        }
        return "nodes", {"layers": layers}
    if isinstance(method, HasUsedNodes):
        used = {name: nodes.int().tolist() for name, nodes in method.used().items()}
        return "used_nodes", {"layers": used}
    return None


def _short(values: Tensor) -> list[float]:
    """Four digits are plenty for a histogram, and keep the file small."""
    return [float(f"{value:.4g}") for value in values.tolist()]
