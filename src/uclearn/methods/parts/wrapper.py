"""A method around another, what the innermost one knows about its nodes, and mistakes that every
method notices early: a wrong example, a changed model, numbers gone bad."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, Unpack, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from uclearn.errors import SettingError, TaskError, UclearnError
from uclearn.gaussian.noise import Noise
from uclearn.measures.capacity import concerns, layers_of
from uclearn.methods.contract import Inputs, Losses, Method, Step, StepFields, is_own
from uclearn.methods.losses import Loss
from uclearn.tasks.task import Task

Strength = float | Literal["auto"]
"""Of a penalty: a number, or by the method's own rule."""


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

    @property
    def task_steps(self) -> int | None:
        """As the inner method has it."""
        return self.method.task_steps

    @task_steps.setter
    def task_steps(self, steps: int | None) -> None:
        self.method.task_steps = steps

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

    def move(
        self, optimizer: Optimizer, step: Step | None = None, **given: Unpack[StepFields]
    ) -> None:
        """As the inner method."""
        if is_own(self.adjust_gradients, Wrapper.adjust_gradients):
            self.method.move(optimizer, step, **given)
        else:
            super().move(optimizer, step, **given)

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.end_step(step, **given)

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
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


class DrawsWeights(Method):
    """A method that draws its weights: where its stream of noise stands is part of its state."""

    noise: Noise

    def get_extra_state(self) -> Tensor:
        """Where the stream of noise stands."""
        return torch.tensor(self.noise.state)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the stream of noise up again."""
        seed, drawn = state.tolist()
        self.noise.state = (seed, drawn)


@runtime_checkable
class KnowsUncertainty(Protocol):
    """A method with an uncertainty for each node, such as UCL."""

    def sigmas(self) -> dict[str, Tensor]:
        """Per layer, (nodes,)."""
        ...

    def strengths(self) -> dict[str, Tensor]:
        """Per layer initial sigma / sigma, (nodes,)."""
        ...


@runtime_checkable
class HoldsOutputs(Protocol):
    """A method that holds what nodes say, where inputs have pointed so far."""

    def taken(self) -> dict[str, float]:
        """Per layer the share of the directions of its inputs (`uclearn.measures.capacity`)."""
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
    """As runs and journals record it: per layer `sigma_init`, `sigma` with a number for each node,
    and, where outputs are held, what is `taken`; None for methods that know no uncertainty."""
    known = _knowing(method)
    if known is None:
        return None
    strengths = known.strengths()
    taken = known.taken() if isinstance(known, HoldsOutputs) else {}
    return {
        name: {
            # strength is sigma_init / sigma, and all nodes of a layer began alike
            "sigma_init": _short(sigma[:1] * strengths[name][:1])[0],
            "sigma": _short(sigma),
            **({"taken": float(f"{taken[name]:.4g}")} if name in taken else {}),
        }
        for name, sigma in known.sigmas().items()
    }


def node_state(method: Method, task: int) -> dict[str, Any] | None:
    """The line to record after task number `task`, as runs record it; None for methods that know no
    uncertainty.

    >>> import torch
    >>> from uclearn import UCL
    >>> method = UCL(torch.nn.Linear(2, 2), torch.zeros(1, 2), hold="weights", sigma=0.5)
    >>> node_state(method, 0)
    {'event': 'nodes', 'task': 0, 'layers': {'': {'sigma_init': 0.5, 'sigma': [0.5, 0.5]}}}
    """
    layers = sigmas_by_layer(method)
    return None if layers is None else {"event": "nodes", "task": task, "layers": layers}


def concerns_of(method: Method) -> list[str]:
    """What is wrong with how the nodes of a method stand, each with its remedy; nothing for methods
    that know no uncertainty."""
    state = node_state(method, 0)
    return [] if state is None else concerns(layers_of([state]))


def _short(values: Tensor) -> list[float]:
    """Four digits are plenty for a histogram, and keep the file small."""
    return [float(f"{value:.4g}") for value in values.tolist()]


@contextmanager
def running_on(example: Any) -> Iterator[None]:
    """Within, the model runs on the user's example: what it says of it becomes a SettingError."""
    tensor = next(iter(tree_leaves(example)), None)
    if isinstance(tensor, Tensor) and (tensor.dim() == 0 or tensor.numel() == 0):
        raise SettingError(
            f"`example` must hold at least one input, got shape {tuple(tensor.shape)}. A batch "
            "of one, such as x[:1], is enough."
        )
    try:
        yield
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
        if isinstance(error, UclearnError):
            raise
        shape = tuple(example.shape) if isinstance(example, Tensor) else type(example).__name__
        raise SettingError(
            f"`example` must be a batch that the model accepts, such as x[:1], got {shape}. "
            f"The model said: {error}"
        ) from error


class ModuleGuard:
    """Where the layers of a method hang in its model, to notice when one is replaced.

    Args:
        method: a method.
        layers: the layers of its model that must stay, by name.
    """

    def __init__(self, method: Method, layers: Mapping[str, nn.Module]) -> None:
        self._method, self._layers = method, layers
        wanted = {id(layer) for layer in layers.values()}
        self._hung = [
            (parent, attribute, child)
            for parent in (method, *method.model.modules())
            for attribute, child in parent._modules.items()
            if child is not None and any(id(below) in wanted for below in child.modules())
        ]

    def check(self) -> None:
        """All of them are still there, if only inside a wrapper (DDP, torch.compile)."""
        if all(parent._modules.get(name) is module for parent, name, module in self._hung):
            return
        present = {id(module) for module in self._method.model.modules()}
        gone = [name for name, layer in self._layers.items() if id(layer) not in present]
        if gone:
            raise TaskError(
                f"The model no longer holds these layers that the method was built with: "
                f"{', '.join(name or 'the model itself' for name in gone)}. What stands in their "
                "place is not held. Change the model first and build a new method from it."
            )


def require_finite_weights(weights: Iterable[tuple[str, Tensor]]) -> None:
    """Nothing is consolidated that has become NaN or infinite."""
    broken = [name for name, weight in weights if not bool(weight.isfinite().all())]
    if broken:
        raise TaskError(
            f"Cannot end the task: these parameters are not finite: {', '.join(broken)}. The "
            "loss became NaN or infinite; lower the learning rate, clip gradients, or load "
            "the last good state. What earlier tasks left is unchanged."
        )


def require_finite_penalty(total: Tensor) -> None:
    """A penalty of NaN means that weights are."""
    # on other devices the look would stall the queue; there the end of the task finds out
    if total.device.type == "cpu" and not math.isfinite(total.item()):
        raise TaskError(
            f"The penalty is {total.item()}: some weights are not finite, or have moved too "
            "far to be squared. The loss became NaN or infinite in an earlier step; lower "
            "the learning rate or clip gradients."
        )


def check_importance(names: Sequence[str], values: Sequence[Tensor], source: str) -> None:
    """Refuse an importance that is not finite, before anything is changed by it."""
    broken = [name for name, v in zip(names, values, strict=True) if not bool(v.isfinite().all())]
    if broken:
        raise TaskError(
            f"Cannot end the task: {source} gave an importance that is not finite to "
            f"{', '.join(broken)}. Look for examples whose loss or gradient is not finite. What "
            "earlier tasks left is unchanged."
        )


def check_setting(name: str, value: float, meaning: str, *, positive: bool = False) -> None:
    """Refuse a number that is negative or not finite (`positive`: or zero)."""
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        least = "greater than 0" if positive else "0 or greater"
        raise SettingError(f"`{name}` must be {least} and finite, got {value}. {meaning}")


def check_strength(strength: Strength, meaning: str) -> None:
    """Refuse a strength that is neither a number of 0 or greater nor `"auto"`."""
    if not isinstance(strength, str):
        check_setting("strength", strength, meaning)
    elif strength != "auto":
        raise SettingError(
            f"`strength` must be a number or 'auto', got {strength!r}. {meaning} With 'auto' it "
            "follows from what the finished tasks need."
        )
