"""MAS, memory aware synapses (Aljundi et al., ECCV 2018).

    penalty = strength * sum Omega (theta - theta')^2           (strength: the paper's lambda)
    Omega  += mean over examples of | d ||network(x)||^2 / d theta |

A weight matters if the network's outputs depend on it; no labels are needed. Over tasks Omega is
added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.contract import Inputs, Losses, forward_passes, lent
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import AnchoredMethod, grow_anchors
from uclearn.methods.parts.per_example import importance
from uclearn.methods.parts.wrapper import Strength, check_importance
from uclearn.tasks.task import Task


class MAS(AnchoredMethod):
    """Hold each weight to where earlier tasks left it, as firmly as their outputs depend on it.

    State: Omega and an anchor per weight, however many tasks there were.

    Args:
        model: any network; copied. Every trainable parameter but those of heads is held.
        example: not needed.
        strength: lambda. `"auto"`: undoing a task costs one unit of the loss on average
            (`by_rule`). Omega grows with the outputs themselves and knows nothing of the loss.
        per_sample: the mean of each example's absolute gradient, as the paper defines it. With
            False the absolute value of each batch's mean gradient, as in the authors' released
            code: smaller, since gradients cancel, and dependent on the size of batches.
        plain: qualified names of modules that are not held, beside heads.
        closed_form: add the penalty's gradient in `adjust_gradients` instead of through the loss:
            cheaper, for loops that call it.

    >>> method = MAS(nn.Linear(1, 1, bias=False))
    >>> _ = nn.init.ones_(method.model.weight)
    >>> method.end_task(inputs=[torch.tensor([[1.0], [3.0]])])
    >>> method.memory.importance.tensors()  # |d (w x)^2 / dw| = 2 w x^2: (2 + 18) / 2
    [tensor([[10.]])]
    """

    facts = Facts(
        works_in_rl=True,
        search={"strength": Range(0.001, 10.0, log=True)},
        tried={"strength": (0.01, 0.1, 1.0, 10.0)},
        cost=lambda n: Cost(3 * n.shared + n.heads, n.shared + n.head),
        grow=grow_anchors,
    )

    tasks_done: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: Strength = "auto",
        per_sample: bool = True,
        plain: Iterable[str] = (),
        closed_form: bool = False,
    ) -> None:
        super().__init__(model, strength, plain, closed_form)
        self.per_sample = per_sample
        self.register_buffer("tasks_done", torch.tensor(0))

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """Measure how the outputs depend on each weight, over the finished task's inputs.

        Of several processes that learn one model each measures its own `inputs`, or some of the
        batches of `task`."""
        if task is None and inputs is None:
            raise TaskError(
                "MAS measures importance by the network's outputs, but neither `task` nor "
                "`inputs` is given. Pass batches of the finished task's inputs: "
                "`method.end_task(inputs=[x1, x2, ...])`."
            )
        self.memory.check()
        weights = self.memory.weights()
        group = 1 if self.per_sample else None
        with lent(self.model):
            # the task that ends is the one after those that are done, where no other is named
            head = int(self.tasks_done) if task is None else task.index
            outputs = forward_passes(self.model, task, inputs, head)
            squares = (output.flatten(1).square().sum(1) for output in outputs)  # (batch,) each
            new = importance(self.model, weights, squares, "absolute", group)
        check_importance(self.memory.names, new, "the outputs' dependence")
        self.measure_way(new)
        for omega, fresh in zip(self.memory.importance.tensors(), new, strict=True):
            omega.add_(fresh)
        self.memory.remember()
        self.tasks_done += 1
