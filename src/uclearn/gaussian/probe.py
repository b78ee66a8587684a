"""Normalisations by what they do, not by what they are called.

A module passes features on if each of its parameters holds a number for each feature and acts on
that feature alone, and if features that change places leave it in their new places. That is tried
out on random inputs, on a copy: every RMSNorm, a layer norm over channels, a batch norm with an
activation, a layer scale and a PReLU are found so, whoever wrote them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn


@torch.no_grad()
def feature_dim(module: nn.Module) -> int | None:
    """The dimension along which the module's parameters hold one number per feature: -1, or 1 for
    channels; None where they do not.

    >>> feature_dim(nn.PReLU(6)), feature_dim(nn.RMSNorm(6)), feature_dim(nn.Linear(6, 6))
    (1, -1, None)
    """
    own = list(module.parameters(recurse=False))
    if len(own) != sum(1 for _ in module.parameters()):
        return None
    sizes = {parameter.numel() for parameter in own} - {1}
    if len(sizes) != 1 or any(_is_table(parameter) for parameter in own):
        return None
    (features,) = sizes
    state = torch.random.get_rng_state()  # a module may draw
    try:
        for shape, dim in _shapes(features):
            if _acts_along(copy.deepcopy(module).eval(), shape, dim, features):
                return dim
    finally:
        torch.random.set_rng_state(state)
    return None


def _is_table(parameter: Tensor) -> bool:
    """More than one number per feature, or nothing to try out."""
    return sum(size > 1 for size in parameter.shape) > 1 or parameter.device.type == "meta"


def _shapes(features: int) -> Iterator[tuple[tuple[int, ...], int]]:
    batch, height, width = [size for size in (2, 3, 5, 7) if size != features][:3]
    yield (batch, height, features), -1
    yield (batch, features, height, width), 1
    yield (batch, features, height), 1
    yield (batch, height, width, features), -1
    yield (batch, features), -1
    yield (batch, features, height, width, 4), 1


def _acts_along(module: nn.Module, shape: tuple[int, ...], dim: int, features: int) -> bool:
    own = [parameter for parameter in module.parameters() if parameter.numel() == features]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(own[0])
    try:
        before = _answer(module, x)
        if before is None:
            return False
        chosen = features // 2
        for parameter in own:
            parameter.view(-1)[chosen] += 1
            after = _answer(module, x)
            parameter.view(-1)[chosen] -= 1
            if after is None:
                return False
            moved = (after != before).movedim(dim, 0).flatten(1).any(1)
            if moved.nonzero().flatten().tolist() != [chosen]:
                return False
        return isinstance(module, nn.GroupNorm) or _keeps_places(module, x, dim, features)
    except Exception:  # another shape is meant, or other arguments
        return False


def _answer(module: nn.Module, x: Tensor) -> Tensor | None:
    y = module(x.clone())
    return y if isinstance(y, Tensor) and y.shape == x.shape else None


def _keeps_places(module: nn.Module, x: Tensor, dim: int, features: int) -> bool:
    """With all features treated alike, changing their places changes places only."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.numel() == features and tensor.is_floating_point():
            tensor.fill_(0.5)
    order = torch.arange(features, device=x.device).roll(1)
    there, back = _answer(module, x), _answer(module, x.index_select(dim, order))
    if there is None or back is None:
        return False
    return torch.allclose(there.index_select(dim, order), back, rtol=1e-3, atol=1e-4)
