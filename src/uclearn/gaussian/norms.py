"""Normalisation beside Gaussian layers.

A batch norm gathers its running statistics under weight noise but uses them with mean weights,
so they are re-estimated with the means when a task ends, and may be held from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from uclearn.errors import TaskError
from uclearn.ranks import present


class SteadyBatchNorm(_BatchNorm):
    """A batch norm that can be told to keep its statistics, in `train()` too."""

    steady: bool = False

    def forward(self, input: Tensor) -> Tensor:
        """As the torch layer; while `steady`, with the running statistics as in `eval()`."""
        if not self.steady:
            return super().forward(input)
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )


class SteadyBatchNorm1d(SteadyBatchNorm, nn.BatchNorm1d):
    """Over (batch, features) or (batch, channels, length)."""


class SteadyBatchNorm2d(SteadyBatchNorm, nn.BatchNorm2d):
    """Over (batch, channels, height, width)."""


class SteadyBatchNorm3d(SteadyBatchNorm, nn.BatchNorm3d):
    """Over (batch, channels, depth, height, width)."""


def tracking_norms(model: nn.Module) -> list[SteadyBatchNorm]:
    """The batch norms that keep running statistics."""
    found = (m for m in model.modules() if isinstance(m, SteadyBatchNorm))
    return [m for m in found if m.running_mean is not None]


def reestimate(model: nn.Module, forwards: Iterable[Any]) -> None:
    """Gather the running statistics anew, as plain averages over the given forward passes.

    Steady norms keep theirs. Of several processes that learn one model each gives forward passes of
    its own; the averages are over all of them. Whatever goes wrong on the way, the model then has
    the statistics that it had before.

    Args:
        model: converted model; the caller sees to it that it uses its means.
        forwards: an iterable that runs the model once per item it yields.
    """
    norms = [norm for norm in tracking_norms(model) if not norm.steady]
    modes = {module: module.training for module in model.modules()}
    momenta = [norm.momentum for norm in norms]
    before = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers(recurse=False)]
    model.eval()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a cumulative average: every batch counts the same
            norm.train()
        with torch.no_grad():
            _average(norms, passes=sum(1 for _ in forwards))
    except BaseException:
        for buffer, own in before:
            buffer.copy_(own)
        raise
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in modes.items():
            module.training = training


def _average(norms: list[SteadyBatchNorm], passes: int) -> None:
    """Averages over the forward passes of this process become averages over those of all."""
    ranks = present()
    (total,) = ranks.sum(passes)
    gathered = [tensor for norm in norms for tensor in (norm.running_mean, norm.running_var)]
    if ranks.size > 1:
        for tensor in gathered:
            assert tensor is not None
            ranks.sum_([tensor.mul_(passes / max(total, 1))])
    _require_sound(total, norms)


def _require_sound(batches: float, norms: list[SteadyBatchNorm]) -> None:
    if batches == 0:
        raise TaskError(
            "`inputs` must hold at least one batch, got none. Running statistics are averages "
            "over batches of the finished task."
        )
    if not all(bool(buffer.isfinite().all()) for norm in norms for buffer in norm.buffers()):
        raise TaskError(
            "`inputs` must be finite and lead to finite activations, but the running statistics "
            "gathered from them are not. Look for NaN or inf in the data."
        )


def statistics(model: nn.Module) -> list[Tensor]:
    """A copy of all running means and variances, in the order of the model."""
    return [
        tensor.detach().clone()
        for norm in tracking_norms(model)
        for tensor in (norm.running_mean, norm.running_var)
        if tensor is not None
    ]


def restore_statistics(model: nn.Module, saved: list[Tensor]) -> None:
    """Put back what `statistics` gave."""
    places = (
        tensor
        for norm in tracking_norms(model)
        for tensor in (norm.running_mean, norm.running_var)
        if tensor is not None
    )
    for place, tensor in zip(places, saved, strict=True):
        place.copy_(tensor)


@contextmanager
def borrowed_statistics(model: nn.Module, saved: list[Tensor]) -> Iterator[None]:
    """Use other statistics for a while."""
    own = statistics(model)
    restore_statistics(model, saved)
    try:
        yield
    finally:
        restore_statistics(model, own)
