"""RWalk, Riemannian walk (Chaudhry, Dokania, Ajanthan, Torr; ECCV 2018).

    penalty = strength * sum (F + s) (theta - theta')^2         (strength: the paper's lambda)

F is a running Fisher information, kept step by step from the task's mean gradient g of the batch
(eq. 6; "EWC++"),

    F <- alpha g^2 + (1 - alpha) F.

s is a score along the path: every `interval` steps, the fall of the loss that the weight brought
about is compared with how far it moved the outputs, a distance in the sense of the KL divergence
(eq. 7),

    s <- s + max(0, W / (F D^2 / 2 + damping)),   W = - sum of g * movement over the interval,

with D the movement over the interval. When a task ends, s is averaged with what earlier tasks left:
s <- (s_before + s_task) / 2. Both are brought to [0, 1] before they are added (eq. 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError
from uclearn.methods.contract import Inputs, Losses, Step, StepFields
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import NamedTensors, PathMethod, grow_anchors
from uclearn.methods.parts.wrapper import Strength, check_setting
from uclearn.tasks.task import Task


class RWalk(PathMethod):
    """Hold each weight to where earlier tasks left it, by Fisher information and by its path.

    A loop must call `adjust_gradients` after backward, before clipping, and `end_step` after the
    optimiser moved, as for SI.

    Where the paper leaves something open: F starts at 0 and runs on from task to task; gradients
    are those of the task alone, without the penalty's; an interval that a task's end cuts short
    counts; after the first task there is nothing to average with, and s is that task's; both F and
    s are scaled to [0, 1] by the smallest and largest value in the whole network.

    State: six tensors of the size of the weights (anchor, F + s, F, s, W and the weights at the
    beginning of the interval); two more while it runs.

    Args:
        model: any network; copied. Every trainable parameter but those of heads is held.
        example: not needed.
        strength: lambda. `"auto"`: undoing a task costs two units of the loss on average
            (`by_rule`), by the importance of all tasks so far. What is scaled to [0, 1] depends on
            the one weight that matters most.
        alpha: how much the newest batch counts in F; the paper's 0.9.
        interval: steps between scores, Delta t; the paper uses 10 for MNIST, 50 for CIFAR.
        damping: epsilon of eq. 7.
        normalise: bring F and s to [0, 1]. Without, they enter as they are.
        plain: qualified names of modules that are not held, beside heads.
        closed_form: add the penalty's gradient in `adjust_gradients`, which must be called anyway,
            instead of through the loss: cheaper.

    >>> method = RWalk(nn.Linear(2, 1), strength=1.0)
    >>> optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    >>> loss = method.model(torch.ones(4, 2)).square().mean() + method.penalty()
    >>> loss.backward(); method.adjust_gradients(); optimizer.step(); method.end_step()
    >>> method.end_task()
    """

    facts = Facts(
        works_in_rl=True,
        search={"strength": Range(0.03, 100.0, log=True)},
        tried={"strength": (0.1, 1.0, 10.0, 100.0)},
        cost=lambda n: Cost(6 * n.shared + n.heads, n.shared + n.head, working=3 * n.shared),
        grow=grow_anchors,
    )

    price = 2.0

    steps: Tensor
    tasks_done: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: Strength = "auto",
        alpha: float = 0.9,
        interval: int = 10,
        damping: float = 0.001,
        normalise: bool = True,
        plain: Iterable[str] = (),
        closed_form: bool = False,
    ) -> None:
        super().__init__(model, strength, plain, closed_form)
        _check_settings(alpha, interval, damping)
        self.alpha, self.interval = alpha, interval
        self.damping, self.normalise = damping, normalise
        weights = self.memory.named_weights()
        self.fisher = NamedTensors(weights)
        self.score = NamedTensors(weights)
        self.start = NamedTensors(weights)
        self.start.take(weights.values())
        self.register_buffer("steps", torch.tensor(0))  # of the interval
        self.register_buffer("tasks_done", torch.tensor(0))

    @torch.no_grad()
    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Add this step to the path and to F; every `interval` steps, score."""
        super().end_step()
        gradients, fisher = self.path.gradient.tensors(), self.fisher.tensors()
        torch._foreach_mul_(fisher, 1 - self.alpha)
        torch._foreach_addcmul_(fisher, gradients, gradients, value=self.alpha)
        self.steps += 1
        if int(self.steps) >= self.interval:
            self._add_scores()

    @torch.no_grad()
    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """Turn F and s into importance, and begin a new path here."""
        fisher, score = self.fisher.tensors(), self.score.tensors()
        self.check_followed(fisher, "the running Fisher information")
        self._add_scores()
        torch._foreach_div_(score, min(int(self.tasks_done) + 1, 2))
        parts = zip(self._scaled(fisher), self._scaled(score), strict=True)
        self.memory.importance.take(f + s for f, s in parts)
        self.measure_way(self.memory.importance.tensors())
        self.memory.remember()
        self.tasks_done += 1

    def _add_scores(self) -> None:
        """Score what happened since the last time, and begin a new interval."""
        weights = self.memory.weights()
        for score, gain, fisher, weight, start in zip(
            self.score.tensors(),
            self.path.integral.tensors(),
            self.fisher.tensors(),
            weights,
            self.start.tensors(),
            strict=True,
        ):
            distance = (weight - start).square_().mul_(fisher).div_(2).add_(self.damping)
            score.add_(torch.div(gain, distance, out=distance).clamp_(min=0))
        self.start.take(weights)
        self.path.restart()
        self.steps.zero_()

    def _scaled(self, values: Sequence[Tensor]) -> list[Tensor]:
        if not self.normalise:
            return list(values)
        least = min(float(value.min()) for value in values)
        most = max(float(value.max()) for value in values)
        return [(value - least) / ((most - least) or 1.0) for value in values]


def _check_settings(alpha: float, interval: int, damping: float) -> None:
    meaning = "It keeps the score of a weight that did not move finite."
    check_setting("damping", damping, meaning, positive=True)
    if not 0 < alpha <= 1:
        raise SettingError(
            f"`alpha` must be greater than 0 and at most 1, got {alpha}. It is how much the "
            "newest batch counts in the running Fisher information."
        )
    if interval < 1:
        raise SettingError(
            f"`interval` must be at least 1, got {interval}. It is the number of steps between "
            "scores."
        )
