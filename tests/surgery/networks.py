"""Networks of real shapes, small, with every parameter and statistic away from its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.networks import MultiHead, cifar_network, mlp


class Block(nn.Module):
    """Two convolutions with batch norm, added to what came in (through a 1x1 where it grows)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm1(self.first(x)).relu()
        output: Tensor = (self.norm2(self.second(inner)) + self.skip(x)).relu()
        return output


def residual_network() -> MultiHead:
    """A stem and two blocks, pooled; heads of 3 and 2 classes."""
    trunk = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        Block(4, 4),
        nn.MaxPool2d(2),
        Block(4, 6),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return _with_heads(MultiHead(trunk, 6))


def _with_heads(net: MultiHead) -> MultiHead:
    net.add_head(3)
    net.add_head(2)
    return net


class Dense(nn.Module):
    """Two branches side by side, flattened with the channels last, then a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv1d(2, 3, 1), nn.Conv1d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(7 * 5)
        self.out = nn.Linear(7 * 5, 2)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.left(x), self.right(x).tanh()], dim=1)
        output: Tensor = self.out(self.norm(both.transpose(1, 2).flatten(1)).sigmoid())
        return output


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: mlp(6, (8, 7), 3), (6,)),
    "mlp with heads": (lambda: _with_heads(_as_heads(mlp(6, (8, 7), None))), (6,)),
    "cifar": (lambda: _with_heads(cifar_network()), (3, 32, 32)),
    "residual": (residual_network, (1, 8, 8)),
    "side by side, channels last": (Dense, (2, 5)),
}


def _as_heads(net: nn.Module) -> MultiHead:
    assert isinstance(net, MultiHead)
    return net


def build(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """The network of that name and a batch for it."""
    make, shape = NETWORKS[name]
    torch.manual_seed(seed)
    net = unsettle(make())
    return net, torch.randn(5, *shape)


@torch.no_grad()
def unsettle(net: nn.Module) -> nn.Module:
    """Biases, scales and statistics that are not what they are at the start."""
    for module in net.modules():
        for name, tensor in [*module.named_parameters(recurse=False)]:
            if name == "bias" or "Norm" in type(module).__name__:
                tensor.add_(0.3 * torch.randn_like(tensor))
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2.0)
    return net


@torch.no_grad()
def make_certain(net: nn.Module, name: str, rho: Tensor | float) -> None:
    """Give the nodes of one layer other uncertainties: sigma = softplus(rho)."""
    parameter = net.get_parameter(f"{name}.rho")
    parameter.copy_(torch.as_tensor(rho).expand_as(parameter))


def answers(net: Any, x: Tensor) -> list[Tensor]:
    """What a network puts out in evaluation, head by head."""
    net.eval()
    with torch.no_grad():
        heads = range(len(net.heads)) if isinstance(net, MultiHead) else [None]
        return [net(x) if head is None else net(x, task=head) for head in heads]
