"""SI, synaptic intelligence (Zenke, Poole, Ganguli; ICML 2017).

    penalty = strength * sum omega (theta - theta')^2           (strength: the paper's c)

While a task is learned, each weight's share in the fall of the loss is added up along the path,

    W = - sum over steps of  task gradient * movement,

and at its end   omega <- max(omega + W / (D^2 + damping), 0),   with D the weight's way from the
task's beginning to its end. The gradient is the task's, without the penalty's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from uclearn.methods.contract import Losses, Method, Step, StepFields
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import (
    AnchoredWeights,
    PathIntegral,
    check_followed,
    grow_anchors,
)
from uclearn.methods.parts.wrapper import check_importance, check_setting
from uclearn.tasks.task import Task


class SI(Method):
    """Hold each weight to where earlier tasks left it, by what it did for them on the way.

    A loop must call `adjust_gradients` after backward (and after unscaling, with a gradient
    scaler), before clipping, and `end_step` after the optimiser moved. The movement is measured,
    so any optimiser will do. Where gradients are accumulated, the penalty must enter the loss with
    weight 1 in all, as it does when each micro-batch's loss is divided by their number.

    State: omega, anchor and W for each weight; two more tensors of that size while it runs.

    Args:
        model: any network; copied. Every trainable parameter but those of heads is held.
        example: not needed.
        strength: c. The paper uses 0.03 to 1.
        damping: keeps omega bounded where a weight hardly moved; 0.001 for notMNIST.
        nonnegative: no omega falls below 0, as in the authors' released code (a step that the
            paper does not print). With False a weight that made the loss worse along the way is
            pushed away from its anchor, without a bound.
        plain: qualified names of modules that are not held, beside heads.
        closed_form: add the penalty's gradient in `adjust_gradients`, which must be called anyway,
            instead of through the loss: cheaper.

    >>> method = SI(nn.Linear(2, 1), strength=0.1)
    >>> optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    >>> loss = method.model(torch.ones(4, 2)).square().mean() + method.penalty()
    >>> loss.backward(); method.adjust_gradients(); optimizer.step(); method.end_step()
    >>> method.end_task()
    """

    facts = Facts(
        works_in_rl=True,
        search={"strength": Range(0.003, 100.0, log=True)},
        tried={"strength": (0.01, 0.1, 1.0, 10.0)},
        cost=lambda n: Cost(3 * n.shared + n.heads, n.shared + n.head, working=3 * n.shared),
        grow=grow_anchors,
    )

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: float = 1.0,
        damping: float = 0.01,
        nonnegative: bool = True,
        plain: Iterable[str] = (),
        closed_form: bool = False,
    ) -> None:
        check_setting("strength", strength, "It is c, which weighs the whole penalty.")
        check_setting(
            "damping",
            damping,
            "It keeps the importance of a weight that did not move finite.",
            positive=True,
        )
        super().__init__(model)
        self.strength, self.damping = strength, damping
        self.nonnegative, self.closed_form = nonnegative, closed_form
        self.memory = AnchoredWeights(self.model, plain)
        self.path = PathIntegral(self.memory)

    @property
    def _spring(self) -> float:
        # c d^2 is a spring of strength 2 c
        return 2 * self.strength

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """`strength * sum omega (theta - theta')^2`, not divided by anything."""
        return self.memory.penalty(self._spring, self.closed_form)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Record the task's gradient; with `closed_form`, then add the penalty's in place."""
        self.path.record(self.memory, 0.0 if self.closed_form else self._spring)
        if self.closed_form:
            self.memory.add_gradient(self._spring)

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Add this step to the path integral."""
        self.path.advance(self.memory)

    @torch.no_grad()
    def end_task(
        self,
        task: Task | None = None,
        losses: Losses | None = None,
        *,
        inputs: Iterable[Any] | None = None,
    ) -> None:
        """Turn the path integral into importance, and begin a new path here."""
        self.memory.check()
        integral = self.path.integral.tensors()
        check_followed(self.memory, integral)
        check_importance(self.memory.names, integral, "the path integral")
        for omega, gain, weight, anchor in zip(
            self.memory.importance.tensors(),
            integral,
            self.memory.weights(),
            self.memory.anchor.tensors(),
            strict=True,
        ):
            omega.add_(gain / ((weight - anchor).square_().add_(self.damping)))
            if self.nonnegative:
                omega.clamp_(min=0)
        self.path.restart()
        self.memory.remember()
