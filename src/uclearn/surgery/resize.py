"""Layers made larger or smaller, node by node, and proof that the network still fits together.

A cut says, for every layer, which of the old nodes and input features the new one has, in order;
`NEW` stands for one that was not there before. Where features go is predicted from the topology.
The resized network is then followed once more: if it is not wired as predicted, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvTransposeNd
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from uclearn.errors import UnsupportedLayerError
from uclearn.methods.contract import lent
from uclearn.networks import MultiHead, call
from uclearn.surgery.anatomy import OUTPUT, TRUNK, Anatomy, examine
from uclearn.topology import node_count

NEW = -1


@dataclass(frozen=True)
class Cut:
    """What one layer becomes."""

    nodes: Tensor
    """(new nodes,) the old number of each, or `NEW`; empty for a normalisation."""
    features: Tensor
    """(new features,) the old number of each, or `NEW`."""


@dataclass(frozen=True)
class Cuts:
    """What a network becomes."""

    of: Mapping[str, Cut]
    wiring: Mapping[str, Sequence[frozenset[int]]]
    """Per layer the nodes that will feed each feature, in the new numbering of nodes."""


def pick(values: Tensor, index: Tensor, fill: float, dim: int = 0) -> Tensor:
    """`values` at `index` along `dim`, with `fill` where the index says `NEW`.

    >>> pick(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([0, 2, NEW]), fill=1.0)
    tensor([5., 7., 1.])
    """
    index = index.to(values.device)
    picked = values.index_select(dim, index.clamp_min(0))
    shape = [-1 if d == dim % values.dim() else 1 for d in range(values.dim())]
    return picked.masked_fill((index == NEW).view(shape), fill)


def node_axis(layer: nn.Module) -> int:
    """The dimension of `weight` that counts nodes; features stand in the other of the first two."""
    return 1 if isinstance(layer, nn.Embedding | _ConvTransposeNd) else 0


def cut_values(module: nn.Module, name: str, values: Tensor, cut: Cut, fill: float) -> Tensor:
    """Something shaped like the parameter or buffer `name` of a layer or normalisation."""
    if isinstance(module, _NormBase):
        return pick(values, cut.features, fill) if values.dim() else values
    if "weight" not in name:  # what there is of each weight, such as a variance, is named after it
        return pick(values, cut.nodes, fill)
    axis = node_axis(module)
    return pick(pick(values, cut.nodes, fill, axis), cut.features, fill, 1 - axis)


_NEW_NORM = {"weight": 1.0, "running_var": 1.0}  # passes on what arrives; all else is 0


def resize(model: nn.Module, anatomy: Anatomy, cuts: Cuts) -> None:
    """Resize the layers and normalisations of `model` in place; what is new is 0, or neutral.

    The modules stay the same objects, their parameters do not: build optimisers anew.
    """
    modules, unchanged = dict(model.named_modules()), whole(anatomy)
    for name, cut in cuts.of.items():
        same = all(map(torch.equal, vars(cut).values(), vars(unchanged[name]).values()))
        if not same and (name in anatomy.layers or name in anatomy.norms):
            _resize_module(modules[name], cut)
    if isinstance(model, MultiHead):
        model.features = len(cuts.of[TRUNK].features)


def _resize_module(module: nn.Module, cut: Cut) -> None:
    new = _NEW_NORM if isinstance(module, _NormBase) else {}
    replace_tensors(module, lambda n, values: cut_values(module, n, values, cut, new.get(n, 0.0)))


_LENGTHS = (
    ("out_features", "out_channels", "embedding_dim", "num_features"),
    ("in_features", "in_channels", "num_embeddings"),
)
"""The attributes of layers that repeat how many nodes and how many features there are."""


@torch.no_grad()
def replace_tensors(module: nn.Module, resized: Callable[[str, Tensor], Tensor]) -> None:
    """Put `resized(name, tensor)` in the place of each of a layer's own parameters and buffers, and
    correct the layer's attributes that repeat their sizes."""
    for own in (module._parameters, module._buffers):
        for name, tensor in own.items():
            if tensor is not None and (values := resized(name, tensor)) is not tensor:
                parameter = isinstance(tensor, nn.Parameter)
                own[name] = nn.Parameter(values, tensor.requires_grad) if parameter else values  # type: ignore[assignment]
                if name in ("weight", "running_mean"):
                    _note_lengths(module, values)


def _note_lengths(module: nn.Module, values: Tensor) -> None:
    axis = node_axis(module)
    for attributes, dim in zip(_LENGTHS, (axis, 1 - axis), strict=True):
        for attribute in attributes:
            if hasattr(module, attribute):
                setattr(module, attribute, values.shape[dim])


def whole(anatomy: Anatomy) -> dict[str, Cut]:
    """The cut that changes nothing, for every layer, normalisation and end of the network."""
    none = torch.zeros(0, dtype=torch.int64)
    return {
        name: Cut(
            torch.arange(node_count(anatomy.layers[name])) if name in anatomy.layers else none,
            torch.arange(len(table)),
        )
        for name, table in anatomy.topology.sources.items()
    }


def outputs(model: nn.Module, example: Any) -> list[Tensor]:
    """What the network puts out in evaluation, all of its heads; it is left in the mode it was."""
    with lent(model), torch.no_grad():
        if not isinstance(model, MultiHead):
            found = call(model, example)
        else:
            features = model.embed(example)
            found = [head(features) for head in model.heads]
    return tensors(found)


def tensors(tree: Any) -> list[Tensor]:
    """All tensors in what a network puts out."""
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def verify(
    model: nn.Module, example: Any, cuts: Cuts, changed: Mapping[str, int], expected: list[Tensor]
) -> None:
    """The resized network runs, is wired as `cuts` predict, and puts out `expected`, to float
    tolerance. `changed`: the layers whose number of nodes changed, and how many they have now."""
    found = _run_located(lambda: outputs(model, example), model, changed)
    anatomy = examine(model, example)
    for name, sets in cuts.wiring.items():
        if name != OUTPUT and anatomy.sets(name) != list(sets):
            raise UnsupportedLayerError(
                f"The network cannot be resized: with {_words(changed)}, other nodes than expected "
                f"reach `{name}`, because something before it arranges features by a size of its "
                "own (heads of attention, a shuffle of channels). Leave out the layers that feed "
                f"`{name}`."
            )
    if not all(map(close, found, expected)):
        raise UnsupportedLayerError(
            f"The network cannot be resized: with {_words(changed)}, it computes something else, "
            "because something in it looks at all features together (a softmax or a normalisation "
            "over features). Leave out the layers that feed it."
        )


def close(left: Tensor, right: Tensor) -> bool:
    """The same but for the order in which floats are added, at the scale of the largest."""
    if left.shape != right.shape:
        return False
    scale = float(right.abs().max()) if right.numel() else 0.0
    allowed = 1e3 * torch.finfo(left.dtype).eps * max(scale, 1e-6)
    return bool(torch.allclose(left, right, rtol=0.0, atol=allowed, equal_nan=True))


def _run_located(forward: Callable[[], Any], model: nn.Module, changed: Mapping[str, int]) -> Any:
    """Run the resized network; if it fails, say in which module and at which operation."""
    within: list[str] = []
    hooks, failing = ExitStack(), _Failing()
    for name, module in model.named_modules():
        label = f"{name or 'the model itself'} ({type(module).__name__})"
        enter = module.register_forward_pre_hook(lambda *_, it=label: within.append(it))
        leave = module.register_forward_hook(lambda *_: (within.pop(), None)[1])
        hooks.enter_context(enter)
        hooks.enter_context(leave)
    try:
        with hooks, failing:
            return forward()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise UnsupportedLayerError(
            f"The network cannot be resized: with {_words(changed)}, the operation "
            f"`{failing.name}` in {within[-1] if within else 'the model'} fails, because it counts "
            f"on the old size: {error}. Write the size as -1 or take it from the tensor, or leave "
            "out the layers that feed it."
        ) from error


class _Failing(TorchFunctionMode):
    """Remembers the torch function that failed."""

    name = "forward"

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            self.name = getattr(func, "__name__", str(func))
            raise


def _words(changed: Mapping[str, int]) -> str:
    return ", ".join(f"{count} nodes in `{name}`" for name, count in changed.items())
