"""SI, synaptic intelligence (Zenke, Poole, Ganguli; ICML 2017).

    penalty = strength * sum omega (theta - theta')^2           (strength: the paper's c)

While a task is learned, each weight's share in the fall of the loss is added up along the path,

    W = - sum over steps of  task gradient * movement,

and at its end   omega <- max(omega + W / (D^2 + damping), 0),   with D the weight's way from the
task's beginning to its end. The gradient is the task's, without the penalty's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from uclearn.methods.contract import Inputs, Losses
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import PathMethod, grow_anchors
from uclearn.methods.parts.wrapper import Strength, check_setting
from uclearn.tasks.task import Task


class SI(PathMethod):
    """Hold each weight to where earlier tasks left it, by what it did for them on the way.

    A loop must call `adjust_gradients` after backward (and after unscaling, with a gradient
    scaler), before clipping, and `end_step` after the optimiser moved. The movement is measured,
    so any optimiser will do. Where gradients are accumulated, the penalty must enter the loss with
    weight 1 in all, as it does when each micro-batch's loss is divided by their number.

    State: omega, anchor and W for each weight; two more tensors of that size while it runs.

    Args:
        model: any network; copied. Every trainable parameter but those of heads is held.
        example: not needed.
        strength: c. `"auto"`: undoing a task costs half a unit of the loss on average (`by_rule`).
            Without damping the omega of a task sum up to the fall of its loss, and c = 1 would ask
            for all of it; with damping that is lost, and the rule measures it anew. By hand: the
            paper uses 0.03 to 1.
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

    symbol = "c"
    price = 0.5

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: Strength = "auto",
        damping: float = 0.01,
        nonnegative: bool = True,
        plain: Iterable[str] = (),
        closed_form: bool = False,
    ) -> None:
        super().__init__(model, strength, plain, closed_form)
        meaning = "It keeps the importance of a weight that did not move finite."
        check_setting("damping", damping, meaning, positive=True)
        self.damping, self.nonnegative = damping, nonnegative

    @torch.no_grad()
    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """Turn the path integral into importance, and begin a new path here."""
        integral = self.path.integral.tensors()
        self.check_followed(integral, "the path integral")
        weights, anchors = self.memory.weights(), self.memory.anchor.tensors()
        new = [
            gain / (weight - anchor).square_().add_(self.damping)
            for gain, weight, anchor in zip(integral, weights, anchors, strict=True)
        ]
        self.measure_way(new)
        for omega, fresh in zip(self.memory.importance.tensors(), new, strict=True):
            omega.add_(fresh)
            if self.nonnegative:
                omega.clamp_(min=0)
        self.path.restart()
        self.memory.remember()
