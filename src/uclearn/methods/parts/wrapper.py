"""A method around another, and what the innermost one knows about its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, Unpack, runtime_checkable

from torch import Tensor, nn

from uclearn.methods.contract import Losses, Method, Step, StepFields
from uclearn.methods.losses import Loss
from uclearn.tasks.task import Task


class Wrapper(Method):
    """A method around another: as it stands here it changes nothing.

    Its `model` is the inner method's, its `state_dict` holds the inner method's under `method.`.

    Args:
        method: the method that is wrapped; not copied.
    """

    method: Method

    def __init__(self, method: Method) -> None:
        nn.Module.__init__(self)  # no model of its own, which Method would make
        self.method = method
        self.closed_form, self.noise = method.closed_form, method.noise

    @property
    def model(self) -> nn.Module:  # type: ignore[override]
        """The inner method's network."""
        return self.method.model

    def begin_task(self, task: Task) -> Task:
        """As the inner method."""
        return self.method.begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """As the inner method."""
        return self.method.parameter_groups(lr)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.begin_step(step, **given)

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """As the inner method."""
        return self.method.penalty(step, **given)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.adjust_gradients(step, **given)

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.end_step(step, **given)

    def end_task(
        self,
        task: Task | None = None,
        losses: Losses | None = None,
        *,
        inputs: Iterable[Any] | None = None,
    ) -> None:
        """As the inner method."""
        self.method.end_task(task, losses, inputs=inputs)

    def inference(self, task: int | None = None) -> AbstractContextManager[nn.Module]:
        """As the inner method."""
        return self.method.inference(task)

    def use_loss(self, loss: Loss | None) -> None:
        """For the wrapper and for the inner method."""
        super().use_loss(loss)
        self.method.use_loss(loss)


@runtime_checkable
class KnowsUncertainty(Protocol):
    """A method with an uncertainty for each node, such as UCL."""

    def sigmas(self) -> dict[str, Tensor]:
        """Per layer, (nodes,)."""
        ...

    def strengths(self) -> dict[str, Tensor]:
        """Per layer initial sigma / sigma, (nodes,)."""
        ...


def innermost(method: Method) -> Method:
    """The method inside all wrappers."""
    while isinstance(method, Wrapper):
        method = method.method
    return method


def _knowing(method: Method) -> KnowsUncertainty | None:
    inner = innermost(method)
    return inner if isinstance(inner, KnowsUncertainty) else None


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
