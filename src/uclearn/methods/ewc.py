"""EWC, elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

    penalty = strength/2 * sum F (theta - theta')^2

with F the diagonal of the Fisher information over all examples of a finished task, example by
example: the empirical one, by the answers that the data give,

    F_i = mean over examples of (d loss / d theta_i)^2

or the true one, by the answers that the network itself expects (`parts.surprise`). Where a network
fits its data, losses and with them the empirical F vanish, and what little is left speaks of the
few examples that it gets wrong. The authors of the UCL paper squared the *mean* gradient of batches
of 20 instead, which is about a twentieth of that, since gradients of single examples largely
cancel; the values of lambda that they published belong to it (`fisher_batch=20`), with dropout on.
Over tasks, three ways to merge (t tasks are done, F_new and theta_new belong to the next):

    mean      F <- (F t + F_new) / (t + 1),  theta' <- theta_new      the authors of the UCL paper
    sum       F <- gamma F + F_new,          theta' <- theta_new      online EWC (Schwarz et al.)
    separate  sum over tasks of strength/2 * sum F_t (theta - theta_t)^2      the original
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Unpack, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from uclearn.choices import check_choice
from uclearn.errors import SettingError, TaskError
from uclearn.methods.contract import Inputs, Losses, Step, StepFields, forward_passes, lent
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import AnchoredMethod, grow_anchors
from uclearn.methods.parts.per_example import importance
from uclearn.methods.parts.surprise import surprise
from uclearn.methods.parts.wrapper import Strength, check_importance
from uclearn.ranks import present
from uclearn.tasks.task import Task

Merge = Literal["mean", "sum", "separate"]
Fisher = Literal["auto", "true", "empirical"]


class EWC(AnchoredMethod):
    """Hold each weight to where earlier tasks left it, as firmly as their losses need it.

    State: a Fisher value and an anchor per weight, however many tasks there were. That goes for
    `merge="separate"` too, since a sum of parabolas is a parabola:

        sum_t F_t (theta - theta_t)^2  =  F (theta - theta')^2 + rest,
        F = sum_t F_t,   theta' = sum_t F_t theta_t / F

    so that one importance, one anchor and one number stand for all tasks exactly. Its pull is not
    zero right after a task, because earlier tasks pull towards where they ended.

    Args:
        model: any network; copied. Every trainable parameter but those of heads is held.
        example: not needed.
        strength: lambda. `"auto"`: undoing a task costs 3 nats on average (`by_rule`), so that
            neither the size of the network nor how well it fits nor the Fisher used matters. By
            hand: the values that the paper lists (400 to 100000) belong to `fisher_batch=20` and
            `fisher_dropout=True`; the exact Fisher is about twenty times as large.
        merge: how tasks are merged, `"mean"`, `"sum"` or `"separate"` (see above).
        gamma: with `merge="sum"`, what remains of F at the end of a task; 1 forgets nothing.
        fisher: `"true"`, `"empirical"`, or `"auto"`: true with the strength `"auto"`, empirical
            with a number, as published. The true one needs the task's data and the usual loss:
            where `end_task` is given losses alone, inputs of one's own (acting) or a loss of
            one's own is used, the losses count as they are.
        fisher_batch: None: exact, per example; a number: squared mean gradients of so many
            consecutive examples (the authors' is 20).
        fisher_dropout: leave dropout on while the Fisher information is measured, as the authors
            do: of a network that fits its data well it becomes about ten times as large.
        plain: qualified names of modules that are not held, beside heads.
        closed_form: add the penalty's gradient in `adjust_gradients` instead of through the loss:
            cheaper, for loops that call it.

    >>> net = nn.Linear(2, 1)
    >>> method = EWC(net, strength=10.0)
    >>> x = torch.randn(8, 2)
    >>> method.end_task(losses=lambda: (method.model(x)[:, 0].square() for _ in range(1)))
    >>> method.penalty()
    tensor(0., grad_fn=<_KnownGradientBackward>)
    """

    facts = Facts(
        works_in_rl=True,
        search={"strength": Range(1.0, 1e8, log=True)},
        tried={"strength": (1.0, 10.0, 100.0, 1000.0, 10000.0)},
        cost=lambda n: Cost(3 * n.shared + n.heads, n.shared + n.head),
        grow=grow_anchors,
    )

    stiffness = 1
    price = 3.0
    tasks_done: Tensor
    rest: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: Strength = "auto",
        merge: Merge = "mean",
        gamma: float = 1.0,
        fisher: Fisher = "auto",
        fisher_batch: int | None = None,
        fisher_dropout: bool = False,
        plain: Iterable[str] = (),
        closed_form: bool = False,
    ) -> None:
        super().__init__(model, strength, plain, closed_form)
        _check_settings(merge, gamma, fisher_batch)
        check_choice("fisher", fisher, get_args(Fisher))
        self.merge, self.gamma, self.fisher = merge, gamma, fisher
        self.fisher_batch, self.fisher_dropout = fisher_batch, fisher_dropout
        self.register_buffer("tasks_done", torch.tensor(0))
        self.register_buffer("rest", self.memory.anchor.tensors()[0].new_zeros(()))

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """`strength/2 * sum F (theta - theta')^2`, not divided by anything."""
        springs = super().penalty()
        return springs + self.rest * (self.pull / 2) if self.merge == "separate" else springs

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """Measure the finished task's Fisher information by its losses, and merge it."""
        if losses is None:
            raise TaskError(
                "EWC measures importance by the finished task's losses, but `losses` is None. "
                "Pass a function that computes them once more, example by example: "
                "`method.end_task(losses=lambda: (F.cross_entropy(method.model(x), y, "
                "reduction='none') for x, y in batches))`."
            )
        self.memory.check()
        weights = self.memory.weights()
        with lent(self.model):
            if self.fisher_dropout:
                _switch_on_dropout(self.model)
            told = self._told(task, inputs) or losses()
            new = importance(self.model, weights, told, "square", self.fisher_batch or 1)
        check_importance(self.memory.names, new, "the Fisher information")
        self.measure_way(new)
        self._merge(new)
        self.tasks_done += 1

    def by_rule(self) -> float:
        """A mean counts for as many tasks as it is taken over: mean and sum are the same then."""
        return super().by_rule() * (int(self.tasks_done) if self.merge == "mean" else 1)

    def _told(self, task: Task | None, inputs: Inputs) -> Iterator[Tensor] | None:
        """What the true Fisher information is the mean square of the gradients of; None where the
        losses must do: a loop's own loss, or no data but in the losses (acting)."""
        true = self.fisher == "true" or (self.fisher == "auto" and self.strength == "auto")
        if not true or task is None or inputs is not None or self._loss_of_loop != (None,):
            return None
        return self._surprises(task)

    def _surprises(self, task: Task) -> Iterator[Tensor]:
        """Of the finished task; the signs of a batch are the same, whichever process has it."""
        generator, ranks = torch.Generator(), present()
        for count, outputs in enumerate(forward_passes(self.model, task, None)):
            generator.manual_seed(int(self.tasks_done) << 32 | ranks.rank + count * ranks.size)
            yield surprise(outputs, "classes" if task.chooses else "numbers", generator)

    @torch.no_grad()
    def _merge(self, new: Sequence[Tensor]) -> None:
        known = self.memory.importance.tensors()
        if self.merge == "separate":
            for old, fresh, anchor, weight in zip(
                known, new, self.memory.anchor.tensors(), self.memory.weights(), strict=True
            ):
                self.rest += _complete_square(old, fresh, anchor, weight)
            return
        done = float(self.tasks_done)
        for old, fresh in zip(known, new, strict=True):
            if self.merge == "mean":
                old.mul_(done).add_(fresh).div_(done + 1)
            else:
                old.mul_(self.gamma).add_(fresh)
        self.memory.remember()


def _switch_on_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.train()


def _complete_square(old: Tensor, fresh: Tensor, anchor: Tensor, weight: Tensor) -> Tensor:
    """Add `fresh (theta - weight)^2` to `old (theta - anchor)^2`, in place; returns the rest.

        F = F_1 + F_2,   anchor' = anchor + F_2/F (weight - anchor),
        rest = sum F_1 F_2 / F (weight - anchor)^2

    Where both are zero, nothing pulls and the anchor follows the weight.
    """
    total = old + fresh
    share = torch.where(total > 0, fresh / total, 1.0)
    moved = weight - anchor
    rest = (old * share * moved.square()).sum()
    anchor.add_(share * moved)
    old.copy_(total)
    return rest


def _check_settings(merge: Merge, gamma: float, fisher_batch: int | None) -> None:
    if merge not in get_args(Merge):
        raise SettingError(
            f"`merge` must be one of {', '.join(get_args(Merge))}, got {merge!r}. It says how the "
            "Fisher information of several tasks becomes one."
        )
    if not 0 <= gamma <= 1:
        raise SettingError(
            f"`gamma` must lie between 0 and 1, got {gamma}. It is what remains of the Fisher "
            "information of earlier tasks when a task ends."
        )
    if gamma != 1 and merge != "sum":
        raise SettingError(
            f"`gamma` must be 1 unless `merge` is 'sum', got {gamma} with {merge!r}. Only the "
            "online sum lets earlier tasks fade."
        )
    if fisher_batch is not None and fisher_batch < 1:
        raise SettingError(
            f"`fisher_batch` must be at least 1, got {fisher_batch}. It is how many examples' "
            "gradients are averaged before squaring; None or 1 is exact."
        )
