"""Where a network begins and ends, made visible to a trace: what enters and leaves through ports is
followed as if it came from nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten


class Port(nn.Module):
    """What goes through here is followed as if it came from one node."""

    out_features = 1

    def forward(self, input: Tensor) -> Tensor:
        """A copy."""
        return input.clone()


class Ported(nn.Module):
    """A network with a port before each of its inputs and one behind all of its outputs."""

    def __init__(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.model = model
        self.ports = nn.ModuleList(Port() for value in inputs if is_float(value))
        self.exit = Port()

    def forward(self, *inputs: Any) -> Tensor:
        """(1,): everything that left, summed."""
        ports = iter(self.ports)
        entered = [next(ports)(value) if is_float(value) else value for value in inputs]
        leaving = tree_flatten(self.run(entered))[0]
        sums = [tensor.reshape(-1).sum() for tensor in leaving if isinstance(tensor, Tensor)]
        total = torch.stack(sums).sum() if sums else torch.zeros(())  # a network without outputs
        joined: Tensor = self.exit(total.reshape(1))
        return joined

    def run(self, entered: list[Any]) -> Any:
        """Call the network; other ways to call it are for subclasses."""
        return self.model(*entered)


def is_float(value: Any) -> bool:
    """Whether it is a tensor that nodes can feed."""
    return isinstance(value, Tensor) and value.is_floating_point()
