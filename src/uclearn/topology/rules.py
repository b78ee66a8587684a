"""What each kind of operation does to the identity of nodes.

The rules, in one place:

- elementwise functions pass identities on; two operands (a sum, a product, a gate) give the union;
- views, permutes, slices, concatenations and paddings move identities as they move data; indices
  and masks only choose places, and where nodes have computed them, any place of their dimension;
- pooling and constant filters give the union over their window, a reduction (a sum, a maximum, the
  k largest) the union over its dimensions, interpolation the union over its channel (nearest
  neighbours: exactly the neighbour);
- elements that are added at an index give the union of all that meet there;
- normalisation, softmax and dropout pass on feature by feature;
- attention passes on the features of its values, from every position, whether it is one operation
  or a softmax and a matrix product;
- any other matrix product of two activations gives the union over the summed dimension of both;
- shapes, places (`nonzero`) and numbers taken out of a tensor (`item`, `numpy`) are nobody's: a
  branch that depends on data is followed as the example takes it.

An operation made of others is followed through them, so a normalisation written out by hand is a
reduction and a quotient. Anything else is refused by name, never guessed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from uclearn.topology.sets import EMPTY, Call, NodeSets, Rule, twin_name
from uclearn.topology.unions import (
    FACTORS,
    adaptive_pool,
    attention,
    filtered,
    gated,
    loss,
    matrix_product,
    pool,
    reduce,
    resample,
    select_largest,
)

_MOVED = ("self", "input", "weight", "tensors", "src", "source", "values")
"""Arguments whose elements turn up in the result; others (indices, masks) say where to."""


def nobody(sets: NodeSets, call: Call) -> None:
    """Only the shape, the type or the place of something: no node has made that."""


def pass_on(sets: NodeSets, call: Call) -> Any:
    """Feature by feature, whatever else is looked at."""
    return call.operands()[0]


def elementwise(sets: NodeSets, call: Call) -> Any:
    """The union of what stands at the same place; shares that are mixed with something else are
    none any more."""
    result = sets.blank(call.result.shape)
    made = [operand for operand in call.operands() if bool((operand != EMPTY).any())]
    shares = all(map(sets.are_shares, made))
    for operand in call.operands():
        result = sets.union(result, operand if shares else sets.unmarked(operand))
    return call.every_output(result)


def shares(sets: NodeSets, call: Call) -> Any:
    """A softmax passes on feature by feature, and what comes out are shares of a whole."""
    return sets.marked(call.operands()[0])


def choose(sets: NodeSets, call: Call) -> Any:
    """`where(mask, a, b)` is elementwise; `where(mask)` gives places."""
    return elementwise(sets, call) if "self" in call.numbers else None


def move(sets: NodeSets, call: Call) -> Any:
    """Do to the identities what was done to the data; indices stay what they are."""
    return _moved(_anywhere(sets, call), torch.int64)


def move_floats(sets: NodeSets, call: Call) -> Any:
    """The same for what exists for floats only; they hold every set number (below 2**53)."""
    if call.name.startswith("max_unpool") and (dims := _chosen_dims(call)):
        merged = sets.merge(call.numbers["self"], dims, keepdim=True)
        return merged.expand(call.result.shape)  # another input leaves other places empty
    return _moved(_anywhere(sets, call), torch.float64).to(torch.int64)


def _anywhere(sets: NodeSets, call: Call) -> Call:
    """Where nodes have computed the indices, another input chooses other places: what is moved may
    come from anywhere along the dimensions that they choose in."""
    dims = _chosen_dims(call)
    if not dims:
        return call
    name = next(name for name in _MOVED if name in call.numbers)
    whole: Tensor = call.numbers[name]
    merged = sets.merge(whole, dims, keepdim=True).expand(whole.shape)
    return replace(call, numbers={**call.numbers, name: merged})


def _chosen_dims(call: Call) -> list[int]:
    chosen = call.numbers.get("index", call.numbers.get("indices", call.numbers.get("mask")))
    if isinstance(chosen, list | tuple):  # x[i, j]: an index for each dimension, or a mask
        dims: list[int] = []
        place = 0
        for index, data in zip(chosen, call.data["indices"], strict=True):
            covered = data.dim() if data is not None and data.dtype == torch.bool else 1
            dims += range(place, place + covered) if _has_nodes(index) else []
            place += covered
        return dims
    if not _has_nodes(chosen):
        return []
    if call.name.startswith("max_unpool"):
        return list(range(-int(call.name[10]), 0))
    if call.name == "embedding":
        return [0]
    name = next(name for name in _MOVED if name in call.numbers)
    dim = call.data.get("dim")
    return list(range(call.numbers[name].dim())) if dim is None else [dim]


def _has_nodes(numbers: Any) -> bool:
    return isinstance(numbers, Tensor) and bool((numbers != EMPTY).any())


def _moved(call: Call, kind: torch.dtype) -> Any:
    arguments = {}
    for name, value in call.data.items():
        if name in _MOVED:
            arguments[name] = tree_map_only(Tensor, lambda n: n.to(kind), call.numbers[name])
        elif name == "value":  # what is filled in: a number comes from no node
            arguments[name] = call.numbers[name] if isinstance(value, Tensor) else EMPTY
        else:
            arguments[name] = tree_map_only(Tensor, Tensor.cpu, value)
    if arguments.keys().isdisjoint(_MOVED):
        raise TypeError("no argument whose elements turn up in the result")
    return getattr(torch.ops.aten, call.name)(**arguments)


def overwrite(sets: NodeSets, call: Call) -> Any:
    """What stood there is gone."""
    source = call.numbers.get("src", call.numbers.get("value"))
    shape = call.result.shape
    return source.expand(shape) if isinstance(source, Tensor) else sets.blank(shape)


def put(sets: NodeSets, call: Call) -> Any:
    """Elements written to indexed places, or united with what stands there."""
    _refuse_computed(call.numbers["indices"])
    if call.data["accumulate"]:
        self, values = call.numbers["self"], call.numbers["values"]
        places = torch.arange(self.numel(), device="cpu").view(self.shape)
        places = places[tuple(_whole(call.data["indices"]))]
        index, source = places.reshape(-1), values.expand(places.shape).reshape(-1)
        return _unite(sets, self.reshape(-1), 0, index, source).view(self.shape)
    return move(sets, call)


def _refuse_computed(indices: Any) -> None:
    if any(map(_has_nodes, indices)):
        raise TypeError("nodes have computed where to")


def _whole(indices: list[Tensor | None]) -> list[Tensor | slice]:
    return [slice(None) if index is None else index.cpu() for index in indices]


def scatter(sets: NodeSets, call: Call) -> Any:
    """Elements written to indexed places along one dimension; `add` and `reduce` unite."""
    if _has_nodes(call.numbers["index"]):  # another input writes elsewhere
        return _scattered_anywhere(sets, call)
    if not (call.name in ("scatter_add", "scatter_reduce", "index_add") or "reduce" in call.data):
        return move(sets, call)
    target, dim, index = call.numbers["self"], call.data["dim"], call.data["index"].cpu()
    source = call.numbers.get("src", call.numbers.get("source"))
    if source is None:  # a number
        return target
    if call.name == "index_add":  # one index per slice
        index = index.view([-1 if d == dim % source.dim() else 1 for d in range(source.dim())])
        index = index.expand(source.shape)
    return _unite(sets, target, dim, index, source)


def _scattered_anywhere(sets: NodeSets, call: Call) -> Tensor:
    target: Tensor = call.numbers["self"]
    source = call.numbers.get("src", call.numbers.get("source"))
    if source is None:
        return target
    merged = sets.merge(source, (call.data["dim"],), keepdim=True)
    return sets.union(target, merged.expand(target.shape))


def _unite(sets: NodeSets, target: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Slice by slice, in which no two elements go to one place."""
    target = target.clone()
    for k in range(index.shape[dim]):
        where = index.narrow(dim, k, 1)
        cut = tuple(slice(size) for size in where.shape)
        here = source.narrow(dim, k, 1)[cut]
        target.scatter_(dim, where, sets.union(target.gather(dim, where), here))
    return target


def rule_for(operation: OpOverload) -> Rule | None:
    """The rule that this operation follows, or None if there is none."""
    if operation.namespace != "aten" or operation._overloadname == "dtype":
        return None  # of others only the name is known; `view(dtype)` cuts elements into pieces
    name = twin_name(operation)
    if name in _RULES:
        return _RULES[name]
    packet = getattr(torch.ops.aten, name, operation.overloadpacket)
    kinds = [operation, *(getattr(packet, overload) for overload in packet.overloads())]
    if any(torch.Tag.pointwise in kind.tags for kind in kinds):
        return elementwise
    if any(kind.is_view for kind in kinds):
        return move
    return None


_PASS_ON = (
    "to _to_copy tril triu prelu log_softmax "
    "dropout feature_dropout alpha_dropout feature_alpha_dropout "
    "layer_norm rms_norm group_norm batch_norm instance_norm"
)
_ELEMENTWISE = (  # what torch, or an older one, does not call pointwise itself
    "bernoulli complex floor_divide hardswish leaky_relu log_sigmoid normal polar rrelu"
)
_MOVE = (
    "cat concat concatenate stack hstack vstack dstack repeat repeat_interleave tile "
    "index _unsafe_index index_select gather take take_along_dim masked_select masked_scatter "
    "flip fliplr flipud roll rot90 pixel_shuffle pixel_unshuffle channel_shuffle "
    "slice_scatter select_scatter diagonal_scatter index_copy index_fill embedding "
    "diag diag_embed block_diag _unsafe_view unfold_copy"
)
_MOVE_FLOATS = (
    "pad constant_pad_nd im2col max_unpool2d max_unpool3d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"
)
_RESAMPLE = (
    "upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa"
)
_REDUCE = (
    "sum mean amax amin aminmax max min logsumexp var std var_mean std_mean prod nansum nanmean "
    "median nanmedian mode norm linalg_vector_norm any all _is_any_true _is_all_true "
    "argmax argmin count_nonzero"
)
_POOL = (
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"
)
_ADAPTIVE = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"
)
_LOSS = (
    "mse_loss l1_loss smooth_l1_loss huber_loss nll_loss nll_loss_nd kl_div "
    "binary_cross_entropy binary_cross_entropy_with_logits"
)
_NOBODY = (
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like "
    "new_empty new_empty_strided new_zeros new_ones new_full "
    "item _local_scalar_dense is_nonzero equal allclose nonzero nonzero_numpy argwhere "
    "_assert_async _assert_scalar _assert_tensor_metadata"
)

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_PASS_ON.split(), pass_on),
    **dict.fromkeys(_ELEMENTWISE.split(), elementwise),
    **dict.fromkeys(_MOVE.split(), move),
    **dict.fromkeys(_MOVE_FLOATS.split(), move_floats),
    **dict.fromkeys(_RESAMPLE.split(), resample),
    **dict.fromkeys(_REDUCE.split(), reduce),
    **dict.fromkeys(_POOL.split(), pool),
    **dict.fromkeys(_ADAPTIVE.split(), adaptive_pool),
    **dict.fromkeys(_LOSS.split(), loss),
    **dict.fromkeys(_NOBODY.split(), nobody),
    **dict.fromkeys(FACTORS, matrix_product),
    **dict.fromkeys(["softmax", "_softmax", "_safe_softmax"], shares),
    **dict.fromkeys(["copy", "fill", "zero"], overwrite),
    **dict.fromkeys(["conv1d", "conv2d", "conv3d"], filtered),
    **dict.fromkeys(["scatter", "scatter_add", "scatter_reduce", "index_add"], scatter),
    "glu": gated,
    "index_put": put,
    "scaled_dot_product_attention": attention,
    "topk": select_largest,
    "where": choose,
}
