"""What is known of each node after a task: how sure UCL is of it, or whether HAT uses it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from uclearn.methods.contract import Method
from uclearn.methods.wrapper import Wrapper


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


def node_states(method: Method) -> dict[str, Any] | None:
    """What a run records of the nodes after each task, as plain data; None: nothing is known.

    With uncertainties `sigma` has one number per node of each layer and `initial_sigma` one per
    layer; with used nodes `used` has 0 or 1 per node.
    """
    while isinstance(method, Wrapper):
        method = method.method
    if isinstance(method, HasUncertainties):
        sigmas, strengths = method.sigmas(), method.strengths()
        return {
            "sigma": {name: _short(sigma) for name, sigma in sigmas.items()},
            "initial_sigma": {
                name: _short(sigma[:1] * strengths[name][:1])[0] for name, sigma in sigmas.items()
            },
        }
    if isinstance(method, HasUsedNodes):
        return {"used": {name: used.int().tolist() for name, used in method.used().items()}}
    return None


def _short(values: Tensor) -> list[float]:
    """Four digits are plenty for a histogram, and keep the file small."""
    return [float(f"{value:.4g}") for value in values.tolist()]
