"""Batch norms beside Gaussian layers: they can be told to keep their running statistics."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


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
