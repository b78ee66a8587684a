"""A plain network as JSON, and back, without executing anything that a file says.

Networks made of `Sequential`, `MultiHead` and the layers listed here can be rebuilt, among them all
of `uclearn.networks`. A class of your own cannot: hand in a freshly built one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import CheckpointError
from uclearn.networks import MultiHead


class Standardise(nn.Module):
    """`(x - mean) / scale`, feature by feature; nothing in it is learned.

    Args:
        features: of an example, (features,).

    >>> layer = Standardise.of(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    >>> layer(torch.tensor([[2.0, 6.0]]))
    tensor([[1., 1.]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    @classmethod
    def of(cls, examples: Tensor, scaled: Tensor | None = None) -> Standardise:
        """By mean and standard deviation of `examples`; a constant feature is only shifted, and
        one that is not `scaled`, (features,) bool, is left as it is."""
        layer = cls(examples.shape[1])
        spread, mean = examples.std(dim=0, correction=0), examples.mean(dim=0)
        kept = torch.ones_like(spread, dtype=torch.bool) if scaled is None else scaled
        layer.mean.copy_(torch.where(kept, mean, torch.zeros_like(mean)))
        layer.scale.copy_(torch.where(kept & (spread > 0), spread, torch.ones_like(spread)))
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return (x - self.mean) / self.scale


_KINDS: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm),
    *(nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Identity),
    Standardise,
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Flatten),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
)
KINDS: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in _KINDS}
"""The layers that can be rebuilt, by name."""

_UNSAID = ("device", "dtype", "_weight", "_freeze", "inplace")


def describe(model: nn.Module) -> dict[str, Any] | None:
    """What `rebuild` needs, in the types of JSON; None where a part cannot be rebuilt.

    Weights are not in it, nor are heads: both come with the saved state.

    >>> describe(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))["modules"]["1"]
    {'kind': 'ReLU', 'settings': {}}
    """
    if type(model) is MultiHead:
        trunk = describe(model.trunk)
        own = {"features": model.features, "seed": model.seed}
        return None if trunk is None else {"kind": "MultiHead", "trunk": trunk, "settings": own}
    if type(model) is nn.Sequential:
        parts = {name: describe(module) for name, module in model.named_children()}
        whole = all(part is not None for part in parts.values())
        return {"kind": "Sequential", "modules": parts} if whole else None
    if type(model) not in _KINDS:
        return None
    settings = _settings(model)
    return None if settings is None else {"kind": type(model).__name__, "settings": settings}


def rebuild(description: Mapping[str, Any]) -> nn.Module:
    """The network that `describe` described, with weights of no meaning.

    >>> rebuild(describe(nn.Sequential(nn.Linear(2, 3), nn.ReLU())))[0]
    Linear(in_features=2, out_features=3, bias=True)
    """
    try:
        kind = description["kind"]
        if kind == "MultiHead":
            return MultiHead(rebuild(description["trunk"]), **description["settings"])
        if kind == "Sequential":
            network = nn.Sequential()
            for name, part in description["modules"].items():
                network.add_module(name, rebuild(part))
            return network
        given = description["settings"].items()
        settings = {key: tuple(v) if isinstance(v, list) else v for key, v in given}
        with torch.random.fork_rng(devices=[]):  # the weights will be loaded: nothing is drawn
            return KINDS[kind](**settings)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"The description of the network makes no sense ({error!r}). It is damaged or was "
            "written by a newer uclearn; hand in the network: `Learner.load(folder, model=...)`."
        ) from error


def _settings(module: nn.Module) -> dict[str, Any] | None:
    """The arguments that would build this module again; None if it does not say them all."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(module)).parameters.items():
        if name in _UNSAID or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if not hasattr(module, name):
            return None
        value = getattr(module, name)
        if name == "bias":
            value = value is not None
        elif isinstance(value, tuple):
            value = list(value)
        found[name] = value
    return found
