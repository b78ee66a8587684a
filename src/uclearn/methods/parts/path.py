"""The path that training takes through the weights, as SI and RWalk follow it.

    W = - sum over steps of  gradient of the task's loss * movement of the weight

is, weight by weight, what the weight has contributed to the fall of the loss (exactly so as steps
shrink). The gradient that counts is the task's alone. Where the penalty is part of the loss,
`.grad` holds both, and the penalty's known gradient is taken away again. The movement is measured,
so any optimiser, momentum and clipping are accounted for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.parts.memory import Memory, NamedTensors
from uclearn.penalties.quadratic import pieces


class Path(nn.Module):
    """Records each step: the task's gradient before it, the movement after it.

    Size: the integral is as large as the weights and part of the state; two more tensors of that
    size serve each step and are not.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        like = memory.named_weights()
        self.integral = NamedTensors(like)
        self.gradient = NamedTensors(like, persistent=False)
        self.before = NamedTensors(like, persistent=False)
        self._recorded = False

    @torch.no_grad()
    def record(self, memory: Memory, strength: float) -> None:
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
    def advance(self, memory: Memory) -> None:
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


def check_followed(memory: Memory, evidence: Sequence[Tensor]) -> None:
    """Weights that moved while no step left its trace mean that the loop left out the calls.

    Args:
        memory: where the weights stood when the task began.
        evidence: what every step adds to.
    """
    moved = any(
        not torch.equal(weight, anchor)
        for weight, anchor in zip(memory.weights(), memory.anchor.tensors(), strict=True)
    )
    if moved and not any(bool(tensor.any()) for tensor in evidence):
        raise TaskError(
            "The weights moved, but no step was recorded. Call `method.adjust_gradients()` after "
            "backward and `method.end_step()` after each move of the optimiser."
        )
