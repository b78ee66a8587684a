"""What answers say about weights: the true Fisher information of a network, without labels."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["classes", "labels", "numbers"]
"""What answers are: a choice of one among classes, a yes or no for each label, or numbers."""


def surprise(outputs: Tensor, kind: Kind, generator: torch.Generator | None) -> Tensor:
    """(batch,) numbers whose squared gradients are, on average, the true Fisher information.

    With outputs z and random signs r, it is v . z with v held fixed and E v v^T the information
    that an answer holds about z:

        classes   p = softmax z,   v_k = sqrt(p_k) r_k - p_k sum_j sqrt(p_j) r_j,
                  E v v^T = diag(p) - p p^T
        labels    p = sigmoid z,   v_k = sqrt(p_k (1 - p_k)) r_k,
                  E v v^T = diag(p (1 - p))
        numbers   v = sqrt(2) r,   E v v^T = 2 I   (of squared errors)

    The mean over answers drawn from p is the same, but where a network is sure, hardly any draw
    says anything: here each example does. Where an example has answers in several places (words of
    a text, pixels), its loss is the mean over them, and so is the information; the loss of several
    labels is the mean over them as well, that of several numbers their sum.

    Args:
        outputs: (batch, classes, places...) or (batch, ...) numbers, with graph.
        kind: what they are.
        generator: of the signs; None: they follow from the outputs, so that an example has the
            same, in whichever batch or process it is looked at.
    """
    if generator is None:
        signs = (_signs_of_logits if kind == "classes" else _signs_of_numbers)(outputs.detach())
    else:
        signs = torch.randint(0, 2, outputs.shape, generator=generator).to(outputs) * 2 - 1
    if kind == "classes":
        chances = outputs.detach().softmax(1)
        signs = signs * chances.sqrt()
        signs = signs - chances * signs.sum(1, keepdim=True)
        signs = signs / math.sqrt(math.prod(outputs.shape[2:]))
    elif kind == "labels":
        chances = outputs.detach().sigmoid()
        signs = signs * (chances * (1 - chances) / math.prod(outputs.shape[1:])).sqrt()
    else:
        signs = signs * math.sqrt(2)
    return (outputs * signs).flatten(1).sum(1)


def _signs_of_logits(outputs: Tensor) -> Tensor:
    """+1 or -1 for each class of each example, as good as random: which class leads, and by how
    much, is mixed up with the number of the class."""
    if outputs.shape[1] < 2:
        return torch.ones_like(outputs)
    best = outputs.topk(2, dim=1)
    lead = (64 * (best.values[:, :1] - best.values[:, 1:])).long()
    place = torch.arange(outputs.shape[1], device=outputs.device)
    place = place.view(-1, *(1,) * (outputs.dim() - 2))
    return _mixed(
        place * 0x9E3779B1 + best.indices[:, :1] * 0x85EBCA6B + lead * 0xC2B2AE35, outputs
    )


def _signs_of_numbers(outputs: Tensor) -> Tensor:
    """The same for each number of each example, from its leading digits and its place."""
    mantissa, exponent = torch.frexp(outputs.float())
    place = torch.arange(outputs[0].numel(), device=outputs.device).view(outputs.shape[1:])
    digits = (1024 * mantissa).long()
    return _mixed(place * 0x9E3779B1 + digits * 0x85EBCA6B + exponent.long() * 0xC2B2AE35, outputs)


def _mixed(numbers: Tensor, like: Tensor) -> Tensor:
    """A sign by each whole number."""
    mixed = (numbers ^ (numbers >> 15)) * 0x2C1B3C6D
    return ((mixed >> 17) & 1).to(like) * 2 - 1
