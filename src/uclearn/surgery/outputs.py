"""More classes for a network with one output layer, its old weights unchanged to the bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from uclearn.errors import UclearnError, UnsupportedLayerError
from uclearn.methods.contract import Method, lent
from uclearn.methods.parts.wrapper import innermost
from uclearn.networks import MultiHead, call
from uclearn.surgery.anatomy import examine
from uclearn.surgery.growth import Growth, lengthen, required_grower
from uclearn.surgery.resize import replace_tensors, resize, tensors

Build = Callable[[nn.Module], Method]


def add_outputs(
    method: Method,
    blank: nn.Module,
    example: Any,
    outputs: int,
    build: Build,
    generator: torch.Generator,
) -> tuple[Method, nn.Module]:
    """A method with `outputs` outputs that knows what `method` knows, and its plain network.

    New outputs have small random weights, no importance, the initial uncertainty. What a method
    remembers grows as when its network is widened. One that cannot be widened is built anew from a
    network with a larger output layer, and what the old one remembers is put where it stood.
    `method` and `blank`, the plain network that it was built from, are left as they are; `build`
    makes the method of a network.
    """
    name = output_layer(method.model, example)
    larger = copy.deepcopy(blank)
    wanted = sizes(larger)
    for parameter in (f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".")):
        if parameter in wanted:
            wanted[parameter][0] = outputs
    resize_to(larger, wanted)
    _draw(larger.get_submodule(name), outputs, method, name, generator)
    drawn = cast(nn.Linear, larger.get_submodule(name)).weight
    try:
        grown = copy.deepcopy(method)
        _extend(grown, name, drawn[_outputs(method, name) :], example)
        return grown, larger
    except UnsupportedLayerError:
        grown = build(larger)
    try:
        grown.load_state_dict(_transplanted(method.state_dict(), grown.state_dict()))
    except UclearnError as error:
        raise UnsupportedLayerError(
            f"Classes cannot be added under {type(method).__name__}: what it remembers does not "
            "fit a larger output layer. Use a network with heads (uclearn.networks.MultiHead), "
            f"which gives every task an output layer of its own. ({error})"
        ) from error
    return grown, larger


def grow_outputs(method: Method, outputs: int, example: Any, generator: torch.Generator) -> None:
    """Give the output layer `outputs` outputs, in place, and nothing where it has as many.

    New ones are as `add_outputs` makes them; a method whose memory nobody knows how to extend is
    refused. Build the optimiser anew.
    """
    name = output_layer(method.model, example)
    more = outputs - _outputs(method, name)
    if more > 0:
        features = cast(nn.Linear, method.model.get_submodule(name)).in_features
        _extend(method, name, _drawn(more, features, generator), example)


@torch.no_grad()
def _extend(method: Method, name: str, rows: Tensor, example: Any) -> None:
    """Put `rows` of weights behind those of the output layer; the memory grows with it."""
    extend_memory = required_grower(type(innermost(method)))
    anatomy = examine(method.model, example)
    layer = cast(nn.Linear, method.model.get_submodule(name))
    cuts = lengthen(anatomy, {name: len(rows)})
    resize(method.model, anatomy, cuts)
    layer.weight[-len(rows) :] = rows.to(layer.weight)
    extend_memory(innermost(method), Growth(anatomy, cuts, example))


def _outputs(method: Method, name: str) -> int:
    return cast(nn.Linear, method.model.get_submodule(name)).out_features


def output_layer(model: nn.Module, example: Any) -> str:
    """The name of the Linear layer whose outputs are the network's outputs.

    >>> output_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), torch.zeros(1, 2))
    '2'
    """
    made: dict[str, Tensor] = {}
    with ExitStack() as hooks, lent(model) as network, torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                keep = partial(made.__setitem__, name)
                hooks.enter_context(module.register_forward_hook(lambda *io, it=keep: it(io[-1])))
        final = tensors(call(network, example))
    found = [name for name, out in made.items() if any(out is each for each in final)]
    if not found:
        raise UnsupportedLayerError(
            "Classes can be added where the network ends in a Linear layer; here it does not (what "
            "it puts out is not what a Linear layer made). Use a network with heads "
            "(uclearn.networks.MultiHead), or build it with spare outputs from the start."
        )
    return found[-1]


@torch.no_grad()
def _draw(
    layer: nn.Module, outputs: int, method: Method, name: str, generator: torch.Generator
) -> None:
    assert isinstance(layer, nn.Linear)
    old = method.model.get_submodule(name)
    assert isinstance(old, nn.Linear)
    fresh = _drawn(outputs - old.out_features, layer.in_features, generator)
    layer.weight[old.out_features :] = fresh


def _drawn(rows: int, features: int, generator: torch.Generator) -> Tensor:
    """Small random weights for new outputs."""
    bound = 1 / math.sqrt(features)
    return torch.empty(rows, features).uniform_(-bound, bound, generator=generator)


def _transplanted(old: dict[str, Tensor], new: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor of `new` with the values of `old` where both have a place for them."""
    state = dict(old)
    for key, tensor in old.items():
        grown = new.get(key)
        if grown is not None and _larger(grown, tensor):
            state[key] = grown.clone()
            state[key][tuple(slice(length) for length in tensor.shape)] = tensor
    return state


def _larger(grown: Tensor, tensor: Tensor) -> bool:
    same = grown.shape == tensor.shape or grown.dim() != tensor.dim()
    return not same and all(a >= b for a, b in zip(grown.shape, tensor.shape, strict=True))


Sizes = dict[str, list[int]]
"""By the name of a parameter or buffer its shape; `<features>`: what enters the heads."""


def sizes(model: nn.Module) -> Sizes:
    """The shape of everything in a network but its heads."""
    found = {
        name: list(tensor.shape)
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if not name.startswith("heads.")
    }
    if isinstance(model, MultiHead):
        found["<features>"] = [model.features]
    return found


def resize_to(model: nn.Module, wanted: Mapping[str, list[int]]) -> nn.Module:
    """Make each layer as large as `wanted` says, in place; what was there is kept where it was.

    What is new is zero. For Linear, Conv and Embedding layers without groups, and batch norms.
    """
    for place, module in model.named_modules():

        def resized(name: str, tensor: Tensor, place: str = place) -> Tensor:
            return _resized(tensor, wanted.get(f"{place}.{name}".lstrip(".")))

        replace_tensors(module, resized)
    if isinstance(model, MultiHead) and "<features>" in wanted:
        model.features = wanted["<features>"][0]
    return model


def _resized(tensor: Tensor, shape: list[int] | None) -> Tensor:
    if shape is None or list(tensor.shape) == shape:
        return tensor
    resized = tensor.new_zeros(shape)
    common = tuple(slice(min(a, b)) for a, b in zip(tensor.shape, shape, strict=True))
    resized[common] = tensor[common]
    return resized
