"""What a method says about each of its nodes, whatever stands around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import Wrapper


@runtime_checkable
class KnowsUncertainty(Protocol):
    """A method with an uncertainty for each node, such as UCL."""

    def sigmas(self) -> dict[str, Tensor]:
        """Per layer, (nodes,)."""
        ...

    def strengths(self) -> dict[str, Tensor]:
        """Per layer initial sigma / sigma, (nodes,)."""
        ...


def _knowing(method: Method) -> KnowsUncertainty | None:
    while isinstance(method, Wrapper):
        method = method.method
    return method if isinstance(method, KnowsUncertainty) else None


def strengths_of(method: Method) -> Mapping[str, Tensor]:
    """Per layer how firmly each node is held; empty for methods that know no uncertainty."""
    known = _knowing(method)
    return {} if known is None else known.strengths()


def sigmas_by_layer(method: Method) -> dict[str, dict[str, Any]] | None:
    """As runs and journals record it: per layer `sigma_init`, and `sigma` with a number for each
    node; None for methods that know no uncertainty."""
    known = _knowing(method)
    if known is None:
        return None
    strengths = known.strengths()
    return {
        name: {
            # strength is sigma_init / sigma, and all nodes of a layer began alike
            "sigma_init": _short(sigma[:1] * strengths[name][:1])[0],
            "sigma": _short(sigma),
        }
        for name, sigma in known.sigmas().items()
    }


def node_state(method: Method, task: int) -> dict[str, Any] | None:
    """The line to record after task number `task`, as runs record it; None for methods that know no
    uncertainty.

    >>> import torch
    >>> from uclearn import UCL
    >>> method = UCL(torch.nn.Linear(2, 2), torch.zeros(1, 2), sigma=0.5)
    >>> node_state(method, 0)
    {'event': 'nodes', 'task': 0, 'layers': {'': {'sigma_init': 0.5, 'sigma': [0.5, 0.5]}}}
    """
    layers = sigmas_by_layer(method)
    return None if layers is None else {"event": "nodes", "task": task, "layers": layers}


def _short(values: Tensor) -> list[float]:
    """Four digits are plenty for a histogram, and keep the file small."""
    return [float(f"{value:.4g}") for value in values.tolist()]
