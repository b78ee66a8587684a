"""What EWC, SI, MAS and RWalk remember: where each weight stood, and how much it matters.

The four differ in how they find the importance of a weight. What they do with it is the same,
`strength/2 * sum importance (theta - anchor)^2`, and is done here by `AnchoredWeights`. SI and
RWalk find it along the path that training takes (`PathIntegral`):

    W = - sum over steps of  gradient of the task's loss * movement of the weight

is, weight by weight, what the weight has contributed to the fall of the loss (exactly so as steps
shrink). The gradient that counts is the task's alone. Where the penalty is part of the loss,
`.grad` holds both, and the penalty's known gradient is taken away again. The movement is measured,
so any optimiser, momentum and clipping are accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Unpack, cast

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError
from uclearn.methods.contract import Method, Step, StepFields, gradient_of, trainable
from uclearn.methods.parts.wrapper import (
    Strength,
    check_importance,
    check_strength,
    require_finite_weights,
)
from uclearn.native import calls, holding
from uclearn.networks import head_names
from uclearn.penalties import add_quadratic_gradient, quadratic, quadratic_value
from uclearn.penalties.quadratic import pieces


class NamedTensors(nn.Module):
    """One tensor for each of some parameters, in the state under the parameter's name.

    They start at zero. A buffer's name may hold no dot: `0.weight` becomes `0/weight`.

    >>> list(NamedTensors({"0.weight": torch.ones(2)}).state_dict().items())
    [('0/weight', tensor([0., 0.]))]
    """

    def __init__(self, like: Mapping[str, Tensor], *, persistent: bool = True) -> None:
        super().__init__()
        for name, tensor in like.items():
            zero = torch.zeros_like(tensor, requires_grad=False)
            self.register_buffer(name.replace(".", "/"), zero, persistent)

    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the parameters."""
        return [cast(Tensor, tensor) for tensor in self._buffers.values()]

    @torch.no_grad()
    def take(self, values: Iterable[Tensor]) -> None:
        """Take over the values; the tensors stay their own."""
        for tensor, value in zip(self.tensors(), values, strict=True):
            tensor.copy_(value)


class AnchoredWeights(nn.Module):
    """An anchor and an importance for every trainable weight that all tasks share.

    The network itself is only referred to. Heads are not held, nor what stands below the modules
    named in `plain`. Size: twice the weights.

    Args:
        model: the method's network.
        plain: qualified names of modules that are not held, beside heads.
    """

    def __init__(self, model: nn.Module, plain: Iterable[str] = ()) -> None:
        super().__init__()
        self._model = (model,)  # in a tuple, or it would be registered here too
        self._plain = _known(model, plain)
        held = trainable(model, (*self._plain, *head_names(model)))
        if not held:
            raise SettingError(
                "`model` must have trainable parameters that all tasks share, got none beside "
                "heads and `plain` modules. There is nothing that could be held."
            )
        self.names = tuple(held)
        self.anchor = NamedTensors(held)
        self.importance = NamedTensors(held)
        self.anchor.take(held.values())

    def named_weights(self) -> dict[str, nn.Parameter]:
        """The weights that are held, by name, as they are now."""
        (model,) = self._model
        return {name: _parameter(model, name) for name in self.names}

    def weights(self) -> list[nn.Parameter]:
        """The weights that are held, as they are now."""
        found = list(self.named_weights().values())
        for name, weight, anchor in zip(self.names, found, self.anchor.tensors(), strict=True):
            if weight.shape != anchor.shape:
                raise TaskError(
                    f"The parameter {name} has shape {tuple(weight.shape)}, but the method was "
                    f"built when it had {tuple(anchor.shape)}. Change the model first and build "
                    "the method from it."
                )
        return found

    def penalty(self, strength: float, closed_form: bool) -> Tensor:
        """`strength/2 * sum importance (theta - anchor)^2`; no gradient with `closed_form`."""
        springs = (self.weights(), self.anchor.tensors(), self.importance.tensors(), strength)
        return quadratic_value(*springs) if closed_form else quadratic(*springs)

    def add_gradient(self, strength: float) -> None:
        """Add the penalty's gradient, `strength * importance (theta - anchor)`, in place."""
        springs = zip(self.weights(), self.anchor.tensors(), self.importance.tensors(), strict=True)
        trained = [spring for spring in springs if spring[0].requires_grad]
        if trained:
            gradients = [gradient_of(weight) for weight, _, _ in trained]
            weights, anchors, importances = zip(*trained, strict=True)
            add_quadratic_gradient(gradients, weights, anchors, importances, strength)

    def remember(self) -> None:
        """The weights as they are now are what must not be forgotten."""
        self.anchor.take(self.weights())

    def check(self) -> None:
        """Refuse to consolidate what is broken, or what this memory does not cover."""
        (model,) = self._model
        weights = dict(zip(self.names, self.weights(), strict=True))
        require_finite_weights(weights.items())
        now = trainable(model, (*self._plain, *head_names(model)))
        added = [name for name in now if name not in weights]
        if added:
            raise TaskError(
                f"These parameters are trainable now but were not when the method was built, so "
                f"they are not held: {', '.join(added)}. Build the method once everything that "
                "is to be held can be trained, or name their modules in `plain`."
            )


def _known(model: nn.Module, plain: Iterable[str]) -> tuple[str, ...]:
    names = {name for name, _ in model.named_modules() if name}
    for wanted in (chosen := tuple(plain)):
        if wanted not in names:
            raise SettingError(
                f"`plain` must name modules of the model, got {wanted!r}. Its modules are: "
                f"{', '.join(sorted(names))}."
            )
    return chosen


def _parameter(model: nn.Module, name: str) -> nn.Parameter:
    try:
        return model.get_parameter(name)
    except AttributeError as error:
        raise TaskError(
            f"The parameter {name} is no longer there, so it cannot be held. Change the model "
            "first and build the method from it."
        ) from error


class AnchoredMethod(Method):
    """What EWC, SI, MAS and RWalk do alike: `penalty`, its closed form, and a strength by rule.

    Args:
        model: the network; the method works on a copy.
        strength: what the importances are multiplied by, or `"auto"`, see `by_rule`.
        plain: qualified names of modules that are not held, beside heads.
        closed_form: add the penalty's gradient in `adjust_gradients` instead of through the loss.
    """

    stiffness: ClassVar[int] = 2
    """The penalty is `stiffness/2 * strength * sum importance (theta - anchor)^2`."""
    symbol: ClassVar[str] = "lambda"
    """The paper's name for `strength`."""
    price: ClassVar[float] = 1.0
    """Of undoing a task, in units of the loss, with the strength `"auto"`."""
    ways: Tensor

    def __init__(
        self, model: nn.Module, strength: Strength, plain: Iterable[str], closed_form: bool
    ) -> None:
        meaning = f"It is {self.symbol}, which weighs the whole penalty."
        check_strength(strength, meaning)
        super().__init__(model)
        self.strength, self.closed_form = strength, closed_form
        self.memory = AnchoredWeights(self.model, plain)
        self._pull: float | None = None
        if strength == "auto":  # with a number the state is that of earlier versions
            self.register_buffer("ways", self.memory.anchor.tensors()[0].new_zeros(2))

    @property
    def pull(self) -> float:
        """The strength as a number."""
        if not isinstance(self.strength, str):
            return self.strength
        if self._pull is None:  # read once, not in every step: that would wait for a GPU
            self._pull = self.by_rule()
        return self._pull

    def by_rule(self) -> float:
        """What `"auto"` comes to, measured against what was learned:

            strength * mean over finished tasks of  stiffness/2 * sum importance D^2  =  price

        with D the way from a weight's anchor to where the task left it. To undo a task, so the
        penalty says, costs `price` units of the loss (nats), whatever the importances are measured
        in. Where no weight moved (what a network came with is consolidated) its way is measured
        from 0. 0 as long as there is nothing to measure by.
        """
        tasks, cost = self.ways.tolist()
        return float(self.price * tasks / cost) if cost > 0 else 0.0

    @torch.no_grad()
    def measure_way(self, importance: Iterable[Tensor]) -> None:
        """Take into account what the finished task's way costs by its importance, one tensor per
        weight, before the anchors move."""
        if self.strength != "auto":
            return
        weights, found = self.memory.weights(), list(importance)
        cost = quadratic_value(weights, self.memory.anchor.tensors(), found, self.stiffness)
        if not cost:
            origin = [torch.zeros_like(weight) for weight in weights]
            cost = quadratic_value(weights, origin, found, self.stiffness)
        self.ways += torch.stack([torch.ones_like(cost), cost])
        self._pull = None

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """That of the springs, not divided by anything."""
        return self.memory.penalty(self.stiffness * self.pull, self.closed_form)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """With `closed_form`: add the penalty's gradient in place."""
        if self.closed_form:
            self.memory.add_gradient(self.stiffness * self.pull)

    def _load_from_state_dict(self, *args: Any, **others: Any) -> None:
        super()._load_from_state_dict(*args, **others)
        self._pull = None


class PathMethod(AnchoredMethod):
    """What SI and RWalk do alike: follow each step. Arguments as for `AnchoredMethod`."""

    def __init__(
        self, model: nn.Module, strength: Strength, plain: Iterable[str], closed_form: bool
    ) -> None:
        super().__init__(model, strength, plain, closed_form)
        self.path = PathIntegral(self.memory)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Record the task's gradient; with `closed_form`, then add the penalty's in place."""
        strength = self.stiffness * self.pull
        if self.closed_form and self.path.record_and_pull(self.memory, strength):
            return
        self.path.record(self.memory, 0.0 if self.closed_form else strength)
        super().adjust_gradients()

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Add this step to the path integral."""
        self.path.advance(self.memory)

    def check_followed(self, evidence: Sequence[Tensor], source: str) -> None:
        """Refuse to consolidate what is broken, or weights that moved while no step left its
        trace: the loop left out the calls. `evidence`: what every step adds to, named `source`."""
        self.memory.check()
        still = all(map(torch.equal, self.memory.weights(), self.memory.anchor.tensors()))
        if not still and not any(bool(tensor.any()) for tensor in evidence):
            raise TaskError(
                "The weights moved, but no step was recorded. Call `method.adjust_gradients()` "
                "after backward and `method.end_step()` after each move of the optimiser."
            )
        check_importance(self.memory.names, evidence, source)


class PathIntegral(nn.Module):
    """Records each step: the task's gradient before it, the movement after it.

    Size: the integral is as large as the weights and part of the state; two more tensors of that
    size serve each step and are not.
    """

    def __init__(self, memory: AnchoredWeights) -> None:
        super().__init__()
        like = memory.named_weights()
        self.integral = NamedTensors(like)
        self.gradient = NamedTensors(like, persistent=False)
        self.before = NamedTensors(like, persistent=False)
        self._recorded = False

    @torch.no_grad()
    def record(self, memory: AnchoredWeights, strength: float) -> None:
        """After backward: keep the weights and the gradient without the penalty's.

        A gradient that is not finite counts as 0: a gradient scaler skips such a step, and where
        nothing does, the weights themselves tell.

        Args:
            memory: what the penalty holds the weights to.
            strength: of the penalty that `.grad` contains; 0 where it contains none.
        """
        springs = zip(
            self.gradient.tensors(),
            self.before.tensors(),
            memory.weights(),
            memory.anchor.tensors(),
            memory.importance.tensors(),
            strict=True,
        )
        for kept, before, weight, anchor, importance in springs:
            if weight.grad is None:
                kept.zero_()
            elif strength:
                _subtract_pull((kept, before, weight.grad, weight, anchor, importance), strength)
            else:
                torch.nan_to_num(weight.grad, 0.0, 0.0, 0.0, out=kept)
            before.copy_(weight)
        self._recorded = True

    @torch.no_grad()
    def record_and_pull(self, memory: AnchoredWeights, strength: float) -> bool:
        """`record` a gradient that does not contain the penalty's, and add that to it, in one pass
        of `uclearn.native`; False: not here, and nothing was done."""
        weights = memory.weights()
        gradients = [each.grad for each in weights if each.grad is not None and each.requires_grad]
        springs = (memory.anchor.tensors(), memory.importance.tensors())
        kept = (self.gradient.tensors(), self.before.tensors())
        everything = chain(gradients, weights, *springs, *kept)
        if len(gradients) < len(weights) or not calls.usable(*everything):
            return False
        pairs = zip(*kept, strict=True)
        for spring in zip(gradients, weights, *springs, pairs, strict=True):
            holding.add_spring(*spring[:4], strength, spring[4])
        self._recorded = True
        return True

    @torch.no_grad()
    def advance(self, memory: AnchoredWeights) -> None:
        """After the move: `W += gradient * (before - now)`."""
        if not self._recorded:
            raise TaskError(
                "`end_step` was called, but the gradient of this step is not known. Call "
                "`method.adjust_gradients()` after backward and before the optimiser moves."
            )
        self._recorded = False
        steps = zip(
            self.integral.tensors(),
            self.gradient.tensors(),
            self.before.tensors(),
            memory.weights(),
            strict=True,
        )
        for tensors in steps:
            if calls.usable(*tensors):
                holding.add_way(*tensors)
                continue
            for integral, gradient, before, now in pieces(tensors):
                integral.addcmul_(gradient, before.sub_(now))  # `before` has served its purpose

    def restart(self) -> None:
        """A new path begins here."""
        torch._foreach_zero_(self.integral.tensors())


def _subtract_pull(tensors: tuple[Tensor, ...], strength: float) -> None:
    """`kept = gradient - strength * importance (weight - anchor)`, with `scratch` to work in."""
    for kept, scratch, gradient, weight, anchor, importance in pieces(tensors):
        torch.sub(weight, anchor, out=scratch)
        torch.addcmul(gradient, scratch, importance, value=-strength, out=kept)
        kept.nan_to_num_(0.0, 0.0, 0.0)


_OF_WEIGHTS = ("memory.anchor", "start", "path.before")
"""What EWC, SI, MAS and RWalk keep of the weights themselves; all else starts at 0."""


@torch.no_grad()
def grow_anchors(method: Any, growth: Any) -> None:
    """Extend what is remembered after the model was widened. New weights: no importance, nothing on
    their path, anchored where they are.

    Args:
        method: EWC, SI, MAS or RWalk.
        growth: how its model was widened (`uclearn.surgery.growth.Growth`).
    """
    modules = dict(method.model.named_modules())
    for place, kept in method.named_modules():
        if not isinstance(kept, NamedTensors):
            continue
        for key, tensor in list(kept.named_buffers()):
            owner, _, name = key.replace("/", ".").rpartition(".")
            if owner not in growth.cuts.of:
                continue
            extend = growth.extended if place in _OF_WEIGHTS else growth.padded
            kept._buffers[key] = extend(modules[owner], name, tensor)
