"""Use again what a loop's own forward pass made of a batch."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle


class Watch:
    """Remembers what a module last made of its input, while it is watched.

    Only passes that can be learned from count: in training mode, with gradients. A copy of a watch
    remembers nothing, since what it remembers belongs to a graph that cannot be copied.

    >>> layer, watch, x = nn.Linear(2, 1), Watch(), torch.zeros(3, 2)
    >>> watch.begin(layer)
    >>> y = layer(x)
    >>> watch.take(x) is y, watch.take(x)
    (True, None)
    >>> watch.end()
    """

    def __init__(self) -> None:
        self._handle: RemovableHandle | None = None
        self._latest: tuple[Any, Any] | None = None

    def begin(self, module: nn.Module) -> None:
        """Watch `module` (and nothing else) from now on."""
        self.end()
        self._handle = module.register_forward_hook(self._see)

    def take(self, inputs: Any) -> Any:
        """The output for these very inputs, once; None if they were not the latest."""
        latest, self._latest = self._latest, None
        return latest[1] if latest is not None and latest[0] is inputs else None

    def end(self) -> None:
        """Look away and forget."""
        if self._handle is not None:
            self._handle.remove()
        self._handle = self._latest = None

    def _see(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if inputs and module.training and torch.is_grad_enabled():
            self._latest = (inputs[0], output)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()
