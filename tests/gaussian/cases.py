"""One small example of every layer type and of every way to use it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer, Noise, NoiseKind, Sampling, convert


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0
    """Not 0: inputs are that many different indices."""

    @property
    def batched(self) -> bool:
        return len(self.shape) > 0 and "unbatched" not in self.name

    def plain(self) -> nn.Module:
        return self.make()

    def input(self) -> Tensor:
        """The first of a batch is as good as random; where there are words, each occurs."""
        if not self.words:
            return torch.randn(self.shape)
        return torch.arange(torch.Size(self.shape).numel()).view(self.shape) % self.words


LINEAR = [
    Case("linear", lambda: nn.Linear(5, 3), (2, 5)),
    Case("linear-without-bias", lambda: nn.Linear(5, 3, bias=False), (2, 5)),
    Case("linear-one-node", lambda: nn.Linear(5, 1), (3, 5)),
    Case("linear-sequences", lambda: nn.Linear(4, 3), (2, 3, 4)),
    Case("linear-unbatched", lambda: nn.Linear(4, 3), (4,)),
]
CONVOLUTIONS = [
    Case(
        "conv1d-stride-padding-dilation",
        lambda: nn.Conv1d(2, 3, 3, stride=2, padding=2, dilation=2),
        (2, 2, 9),
    ),
    Case(
        "conv1d-same-circular",
        lambda: nn.Conv1d(2, 2, 3, padding="same", padding_mode="circular"),
        (2, 2, 6),
    ),
    Case("conv2d-padding", lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 2, 3, 3)),
    Case("conv2d-without-bias", lambda: nn.Conv2d(2, 3, (1, 2), bias=False), (2, 2, 2, 3)),
    Case("conv2d-one-node", lambda: nn.Conv2d(3, 1, 2), (2, 3, 3, 3)),
    Case("conv2d-unbatched", lambda: nn.Conv2d(2, 3, 2), (2, 3, 4)),
    Case(
        "conv2d-groups-stride",
        lambda: nn.Conv2d(4, 6, 2, stride=(1, 2), groups=2),
        (2, 4, 3, 4),
    ),
    Case("conv2d-depthwise", lambda: nn.Conv2d(3, 6, 3, padding=1, groups=3), (2, 3, 2, 3)),
    Case(
        "conv2d-reflect",
        lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"),
        (2, 2, 3, 3),
    ),
    Case(
        "conv2d-replicate",
        lambda: nn.Conv2d(2, 2, 3, padding=(2, 0), padding_mode="replicate"),
        (2, 2, 2, 3),
    ),
    Case("conv3d", lambda: nn.Conv3d(2, 2, 2, padding=(0, 1, 0)), (2, 2, 2, 2, 3)),
    Case("conv3d-groups", lambda: nn.Conv3d(2, 4, (1, 2, 2), groups=2), (2, 2, 2, 3, 2)),
    Case("transposed", lambda: nn.ConvTranspose2d(3, 2, 2), (2, 3, 2, 2)),
    Case("transposed-line", lambda: nn.ConvTranspose1d(2, 4, 2, stride=2, groups=2), (2, 2, 3)),
    Case("transposed-room", lambda: nn.ConvTranspose3d(2, 2, (1, 2, 2)), (1, 2, 2, 2, 2)),
    Case(
        "transposed-stride-output-padding",
        lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1),
        (2, 2, 2, 2),
    ),
    Case(
        "transposed-groups-stride-dilation",
        lambda: nn.ConvTranspose2d(
            4, 6, 2, stride=2, output_padding=(1, 0), groups=2, dilation=(1, 2)
        ),
        (1, 4, 2, 2),
    ),
]
EMBEDDINGS = [
    Case("embedding", lambda: nn.Embedding(4, 3), (2, 3), words=4),
    Case("embedding-padding", lambda: nn.Embedding(4, 3, padding_idx=1), (2, 3), words=4),
    Case("embedding-one-word", lambda: nn.Embedding(4, 3), (), words=4),
]
CASES = LINEAR + CONVOLUTIONS + EMBEDDINGS

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_float_case = pytest.mark.parametrize(
    "case", LINEAR + CONVOLUTIONS, ids=lambda case: case.name
)
both_schemes = pytest.mark.parametrize("sampling", ["weight", "local"])
exact_or_noisy_bias = pytest.mark.parametrize(
    "noisy_bias", [False, True], ids=["exact-bias", "noisy-bias"]
)


def gaussian(
    plain: nn.Module,
    sampling: Sampling = "weight",
    noisy_bias: bool = False,
    kind: NoiseKind = "table",
    noise: Noise | None = None,
) -> GaussianLayer:
    """The layer made Gaussian, with a different sigma for every node and every bias."""
    noise = noise or Noise(seed=1, kind=kind)
    layer = convert(plain, sigma=0.3, sampling=sampling, noisy_bias=noisy_bias, noise=noise)
    assert isinstance(layer, GaussianLayer)
    with torch.no_grad():
        layer.rho.add_(torch.randn_like(layer.rho))
        if layer.rho_bias is not None:
            layer.rho_bias.add_(torch.randn_like(layer.rho_bias))
    return layer.train()


def parameters_of(layer: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters that can be differentiated."""
    return {
        name: copy.deepcopy(parameter.detach()).requires_grad_()
        for name, parameter in layer.named_parameters()
    }
