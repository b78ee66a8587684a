"""What is switched by hand, whatever mode the model is in: sample now, use the means now; and batch
norms that can be told to keep their running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from uclearn.gaussian.layers import GaussianLayer


def use_means(model: nn.Module) -> AbstractContextManager[None]:
    """Within: every Gaussian layer uses its means; other layers keep their mode.

    >>> import torch
    >>> from uclearn.gaussian import convert
    >>> net = convert(nn.Sequential(nn.Linear(4, 2)), sigma=0.1).train()
    >>> x = torch.randn(3, 4)
    >>> with use_means(net):
    ...     torch.equal(net(x), net(x))
    True
    """
    return _override(model, False)


def use_samples(model: nn.Module) -> AbstractContextManager[None]:
    """Within: every Gaussian layer samples, in `eval()` too."""
    return _override(model, True)


@contextmanager
def hold_draws(model: nn.Module) -> Iterator[None]:
    """Within: every call of `model` draws what the first one drew; afterwards new numbers follow.

    With `sampling="weight"` that is one draw of the weights, held: as the optimiser moves means and
    standard deviations, the drawn weights move with them. Any other draw from the same stream would
    be repeated too, so only call the model itself within.

    >>> import torch
    >>> from uclearn.gaussian import convert
    >>> net = convert(nn.Sequential(nn.Linear(4, 2)), sigma=0.1).train()
    >>> x = torch.randn(3, 4)
    >>> with hold_draws(net):
    ...     torch.equal(net(x), net(x))
    True
    >>> torch.equal(net(x), net(x))
    False
    """
    layers = [module for module in model.modules() if isinstance(module, GaussianLayer)]
    streams = list({id(layer.noise): layer.noise for layer in layers}.values())
    starts = [stream.drawn for stream in streams]
    ends = list(starts)

    def rewind(*_: object) -> None:
        for place, (stream, start) in enumerate(zip(streams, starts, strict=True)):
            ends[place] = max(ends[place], stream.drawn)
            stream.drawn = start

    hook = model.register_forward_pre_hook(rewind)
    try:
        yield
    finally:
        hook.remove()
        for stream, end in zip(streams, ends, strict=True):
            stream.drawn = max(stream.drawn, end)


@contextmanager
def _override(model: nn.Module, draws: bool) -> Iterator[None]:
    layers = [module for module in model.modules() if isinstance(module, GaussianLayer)]
    before = [layer.draws for layer in layers]
    for layer in layers:
        layer.draws = draws
    try:
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            layer.draws = own


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


class SteadyOther(SteadyBatchNorm):
    """Somebody else's batch norm; stands before it in the bases."""

    def forward(self, *given: Any, **named: Any) -> Any:
        """As the other layer; while `steady`, as in `eval()`."""
        mode = self.training
        self.training = mode and not self.steady
        try:
            return super(SteadyBatchNorm, self).forward(*given, **named)
        finally:
            self.training = mode
