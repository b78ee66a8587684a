"""The gradient of every single example, layer by layer, from inputs and output gradients.

A rule takes a layer, its input, the gradient of the summed losses with respect to its output, and
the number of groups: consecutive, equally many examples each. It returns the gradient of each
group, (groups, *shape of the parameter). A group of one is one example; all its positions (words,
pixels) are summed over, as the parameter is shared by them.

Only layers whose class is listed have rules; a subclass may compute something else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from uclearn.gaussian.patches import padded, windows

Rule = Callable[[Any, Tensor, Tensor, int], Tensor]
"""(layer, input, output gradient, groups) -> (groups, *shape of the parameter)"""


def rules_for(layer: nn.Module) -> dict[str, Rule]:
    """The rules for a layer's own parameters, by name; empty where there are none."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (
        layer.training or layer.running_mean is None
    ):
        return {}  # examples are normalised by each other
    if isinstance(layer, nn.Embedding) and layer.scale_grad_by_freq:
        return {}  # gradients depend on the other examples
    return _RULES.get(type(layer), {})


def linear_weight(layer: nn.Linear, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, out, in): the sum over positions of output gradient times input."""
    outer = gradient.reshape(groups, -1, gradient.shape[-1]).transpose(1, 2)
    return outer @ input.reshape(groups, -1, input.shape[-1])


def linear_bias(layer: nn.Linear, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, out): the sum over positions."""
    return gradient.reshape(groups, -1, gradient.shape[-1]).sum(1)


def conv_weight(layer: Any, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, out, in / layer.groups, *kernel)."""
    return _correlate(layer, gradient, padded(layer, input), groups)


def transposed_conv_weight(layer: Any, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, in, out / layer.groups, *kernel): a convolution with input and output exchanged."""
    around = [size for size in reversed(layer.padding) for _ in range(2)]
    return _correlate(layer, input, F.pad(gradient, around), groups)


def channel_bias(layer: nn.Module, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, channels): the sum over examples of the group and positions."""
    return _over_channels(gradient, groups)


def embedding_weight(layer: nn.Embedding, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, words, features): each word's gradients, added up."""
    words = input.reshape(groups, -1)
    flat = gradient.reshape(-1, layer.embedding_dim)
    if layer.padding_idx is not None:
        flat = flat * (words.reshape(-1, 1) != layer.padding_idx)
    rows = words + torch.arange(groups, device=words.device)[:, None] * layer.num_embeddings
    total = flat.new_zeros(groups * layer.num_embeddings, layer.embedding_dim)
    return total.index_add_(0, rows.reshape(-1), flat).view(groups, *layer.weight.shape)


def channel_scale(layer: Any, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, channels), of a batch norm with running statistics or a group norm."""
    if isinstance(layer, nn.GroupNorm):
        normed = F.group_norm(input, layer.num_groups, eps=layer.eps)
    else:
        normed = F.batch_norm(input, layer.running_mean, layer.running_var, eps=layer.eps)
    return _over_channels(gradient * normed, groups)


def feature_scale(layer: Any, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, *normalised shape), of a layer norm or an RMS norm."""
    norm = F.layer_norm if isinstance(layer, nn.LayerNorm) else F.rms_norm
    normed = norm(input, layer.normalized_shape, eps=layer.eps)
    return feature_shift(layer, input, gradient * normed, groups)


def feature_shift(layer: nn.LayerNorm, input: Tensor, gradient: Tensor, groups: int) -> Tensor:
    """(groups, *normalised shape)."""
    return gradient.reshape(groups, -1, *layer.normalized_shape).sum(1)


def _over_channels(values: Tensor, groups: int) -> Tensor:
    # (rows, channels, ...) -> (groups, rows of a group, channels, positions)
    return values.reshape(groups, values.shape[0] // groups, values.shape[1], -1).sum((1, 3))


def _correlate(layer: Any, small: Tensor, large: Tensor, groups: int) -> Tensor:
    """(groups, channels of small, channels of large / layer.groups, *kernel).

    sum over positions p and the group's examples of small[p] * large[p * stride + k * dilation].
    """
    spatial, parts = small.shape[2:], layer.groups
    shape = (groups, -1, parts, large.shape[1] // parts)
    # (rows, channels, *positions, *kernel): what each position sees; a view
    patches = windows(large, layer.kernel_size, layer.stride, layer.dilation)
    patches = patches[(slice(None), slice(None), *(slice(length) for length in spatial))]
    patches = patches.unflatten(1, shape[2:]).unflatten(0, shape[:2])
    # (groups, rows, parts, channels, *positions, *kernel), of which only one copy is made, with
    # positions last: (groups, parts, channels * kernel, rows * positions)
    n = len(spatial)
    positions, kernel = range(4, 4 + n), range(4 + n, 4 + 2 * n)
    right = patches.permute(0, 2, 3, *kernel, 1, *positions)
    right = right.reshape(groups, parts, math.prod(right.shape[2 : 3 + n]), -1)
    left = small.reshape(groups, -1, parts, small.shape[1] // parts, math.prod(spatial))
    left = left.permute(0, 2, 3, 1, 4).flatten(3)  # (groups, parts, channels, rows * positions)
    summed: Tensor = left @ right.transpose(2, 3)
    return summed.reshape(groups, *layer.weight.shape)


_CONV: dict[str, Rule] = {"weight": conv_weight, "bias": channel_bias}
_TRANSPOSED: dict[str, Rule] = {"weight": transposed_conv_weight, "bias": channel_bias}
_CHANNEL_NORM: dict[str, Rule] = {"weight": channel_scale, "bias": channel_bias}
_RULES: dict[type[nn.Module], dict[str, Rule]] = {
    nn.Linear: {"weight": linear_weight, "bias": linear_bias},
    nn.Conv1d: _CONV,
    nn.Conv2d: _CONV,
    nn.Conv3d: _CONV,
    nn.ConvTranspose1d: _TRANSPOSED,
    nn.ConvTranspose2d: _TRANSPOSED,
    nn.ConvTranspose3d: _TRANSPOSED,
    nn.Embedding: {"weight": embedding_weight},
    nn.BatchNorm1d: _CHANNEL_NORM,
    nn.BatchNorm2d: _CHANNEL_NORM,
    nn.BatchNorm3d: _CHANNEL_NORM,
    nn.GroupNorm: _CHANNEL_NORM,
    nn.LayerNorm: {"weight": feature_scale, "bias": feature_shift},
    nn.RMSNorm: {"weight": feature_scale},
}


class LayerUse(NamedTuple):
    """A layer was called."""

    layer: nn.Module
    input: Tensor  # (rows, ...), a whole number of rows per example
    output: GradientEdge


class GradientPart(NamedTuple):
    """What one use of a layer contributes to the gradient of one of its parameters."""

    rule: Rule
    layer: nn.Module
    input: Tensor
    gradient: Tensor  # of the summed losses, with respect to the output
    batch: int  # examples

    def of(self, examples: slice, groups: int) -> Tensor:
        """(groups, *shape): the gradient of each group of those examples."""
        each = len(self.input) // self.batch
        rows = slice(examples.start * each, examples.stop * each)
        return self.rule(self.layer, self.input[rows], self.gradient[rows], groups)

    @property
    def size(self) -> int:
        """About how many numbers the rule makes for one example, beside its gradient."""
        kernel = torch.Size(getattr(self.layer, "kernel_size", ()))
        return kernel.numel() * self.input.numel() // self.batch

    @property
    def is_outer(self) -> bool:
        """Whether each example's gradient is one outer product of gradient and input."""
        flat = self.input.dim() == 2 and len(self.input) == self.batch
        return self.rule is linear_weight and flat


class LayerUses:
    """Notes, while it is open, what goes into each layer and where it comes out."""

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.model, self.parameters = model, parameters
        self._uses: list[LayerUse] = []
        self._handles: list[Any] = []
        self._independent: set[int] = set()  # layers whose rows belong to one example each
        self._entangled: set[int] = set()  # and those where they do not

    def __enter__(self) -> Self:
        wanted = {id(parameter) for parameter in self.parameters}
        for module in self.model.modules():
            if any(id(p) in wanted for p in module.parameters(recurse=False)):
                # first of all hooks: others may change what they see
                self._handles.append(module.register_forward_hook(self._note, prepend=True))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._uses.clear()

    def _note(self, layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if arguments and isinstance(output, Tensor) and output.requires_grad and rules_for(layer):
            # the edge, not the tensor: an activation in place would take the tensor over
            self._uses.append(LayerUse(layer, arguments[0].detach(), get_gradient_edge(output)))

    def parts(self, losses: Tensor) -> list[list[GradientPart] | None]:
        """For each parameter the parts that make up its gradient; None where they do not.

        The graph knows how often a parameter was used. If that many uses were noted, and each
        row of those layers belongs to one example, the parts are the whole truth.
        """
        uses, self._uses = self._uses, []
        found = self._found(losses, uses) if uses else {}
        expected = _uses_in_graph(losses)
        return [
            parts if len(parts) == expected[id(parameter)] and self._clear(parts) else None
            for parameter in self.parameters
            for parts in [found.get(id(parameter), [])]
        ]

    def _found(self, losses: Tensor, uses: Sequence[LayerUse]) -> dict[int, list[GradientPart]]:
        gradients = _output_gradients(losses.sum(), uses)
        self._look_for_entanglement(losses, uses, gradients)
        parts: dict[int, list[GradientPart]] = {}
        for use, gradient in zip(uses, gradients, strict=True):
            for name, rule in rules_for(use.layer).items():
                parameter = use.layer._parameters.get(name)
                if parameter is not None and gradient is not None:  # None: the losses ignore it
                    part = GradientPart(rule, use.layer, use.input, gradient, len(losses))
                    parts.setdefault(id(parameter), []).append(part)
        return parts

    def _look_for_entanglement(
        self, losses: Tensor, uses: Sequence[LayerUse], gradients: Sequence[Tensor | None]
    ) -> None:
        """Do the rows of each layer belong to one example each, in order?

        Then weighing the losses weighs the rows alike. Each layer is asked once.
        """
        known = self._independent | self._entangled
        if all(id(use.layer) in known for use in uses):
            return
        generator = torch.Generator().manual_seed(0)
        weights = (1 + torch.rand(len(losses), generator=generator)).to(losses)
        weighed = _output_gradients(losses @ weights, uses)
        for use, gradient, other in zip(uses, gradients, weighed, strict=True):
            if gradient is None or other is None:
                continue
            if len(use.input) != len(gradient) or not _alike(gradient, other, weights):
                self._entangled.add(id(use.layer))
            elif len(losses) > 1 and bool(gradient.any()):
                self._independent.add(id(use.layer))

    def _clear(self, parts: Sequence[GradientPart]) -> bool:
        return not any(id(part.layer) in self._entangled for part in parts)


def _alike(gradient: Tensor, weighed: Tensor, weights: Tensor) -> bool:
    each, rest = divmod(len(gradient), len(weights))
    if rest:
        return False
    scale = weights.to(gradient.dtype).repeat_interleave(each)
    expected = gradient * scale.view(-1, *[1] * (gradient.dim() - 1))
    slack = torch.finfo(gradient.dtype).eps ** 0.5 * float(expected.abs().max())
    return bool(((weighed - expected).abs() <= slack).all())


def _output_gradients(total: Tensor, uses: Sequence[LayerUse]) -> tuple[Tensor | None, ...]:
    outputs = [use.output for use in uses]
    return torch.autograd.grad(total, outputs, retain_graph=True, allow_unused=True)


def _uses_in_graph(losses: Tensor) -> Counter[int]:
    """How often each parameter (by id) enters what the losses were computed from."""
    uses: Counter[int] = Counter()
    seen, waiting = {losses.grad_fn}, [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        for child, _ in node.next_functions if node is not None else ():
            if child is None:
                continue
            if (leaf := getattr(child, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif child not in seen:
                seen.add(child)
                waiting.append(child)
    return uses
