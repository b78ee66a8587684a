"""Losses of single examples: what every loop averages, and what importance is measured by; and
their scores, by which a network is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from uclearn.errors import SettingError, TaskError

Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) -> one loss per example, (batch,)."""

Score = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) -> one number per example, higher is better."""

ClassWeights: TypeAlias = Sequence[float] | Tensor | Literal["balanced"]
"""One for each class, or `"balanced"`: rare classes count as much as frequent ones."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """(batch,) cross-entropy of (batch, classes) outputs with (batch,) labels."""
    return F.cross_entropy(outputs, targets, reduction="none")


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """(batch,) squared error, summed over the dimensions of a target.

    >>> squared_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([5.])
    """
    return (outputs.view_as(targets) - targets).square().flatten(1).sum(1)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """(batch,) 1 where the largest output is the label, else 0.

    >>> correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    tensor([1., 0.])
    """
    return (outputs.argmax(dim=1) == targets).float()


def usual_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """(batch,) cross-entropy for labels, squared error for other targets."""
    return (squared_error if targets.is_floating_point() else cross_entropy)(outputs, targets)


def example_losses(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """(batch,) losses; several draws stacked in front of the outputs are averaged over.

    A method that draws its weights may return (draws, batch, ...): one dimension more than labels
    or targets account for.
    """
    if has_draws(outputs, targets):
        return torch.stack([example_losses(loss, draw, targets) for draw in outputs]).mean(0)
    losses = loss(outputs, targets)
    if losses.dim() == 0 or len(losses) != len(targets):
        raise TaskError(
            f"`loss` must return one number per example, shape ({len(targets)}, ...), got shape "
            f"{tuple(losses.shape)}. Use reduction='none': the average is taken here, and some "
            "methods need each example's own loss."
        )
    return losses if losses.dim() == 1 else losses.flatten(1).mean(1)


def has_draws(outputs: Tensor, targets: Tensor) -> bool:
    """Whether several draws are stacked in front of the outputs, (draws, batch, ...)."""
    if targets.is_floating_point():
        return outputs.dim() > targets.dim() and outputs.shape[1:] == targets.shape
    return outputs.dim() == targets.dim() + 2 and outputs.shape[1] == len(targets)


def weighted(loss: Loss, weights: ClassWeights | None, labels: Tensor, classes: int | None) -> Loss:
    """`loss` with each example weighed by its class; over the `labels`
    that are trained on the weights average to 1."""
    if weights is None:
        return loss
    if classes is None or labels.is_floating_point():
        raise SettingError("`class_weights` need classes, but the targets are numbers.")
    chosen = _weights(weights, labels, classes)
    scaled = chosen / chosen[labels].mean()
    return lambda outputs, targets: loss(outputs, targets) * scaled.to(outputs)[targets]


def _weights(weights: ClassWeights, labels: Tensor, classes: int) -> Tensor:
    counts = torch.bincount(labels, minlength=classes)
    if isinstance(weights, str):
        if weights != "balanced":
            raise SettingError(
                f"`class_weights` must be 'balanced' or a number for each class, got {weights!r}."
            )
        return 1 / counts.clamp_min(1).float()
    chosen = torch.as_tensor(weights, dtype=torch.float32)
    if chosen.shape != (classes,) or not bool((chosen >= 0).all()) or not chosen[labels].any():
        raise SettingError(
            f"`class_weights` must hold one number of 0 or greater for each of the {classes} "
            f"classes, and not 0 for all that occur, got {chosen.tolist()}."
        )
    return chosen
