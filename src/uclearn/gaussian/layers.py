"""Layers whose weights are Gaussian: a mean per weight, one standard deviation per output node.

    w_ij ~ N(mean_ij, sigma_i^2),   sigma_i = softplus(rho_i)

Each is a subclass of the torch layer it replaces: `weight` is the mean, a plain state_dict loads,
isinstance checks hold. As dropout does, they are noisy in `train()` and exact in `eval()`;
`draws = True / False` overrides the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn.choices import check_choice
from uclearn.gaussian import fused
from uclearn.gaussian.functions import add_noise, sample_weight, sum_of_squares
from uclearn.gaussian.noise import Noise
from uclearn.gaussian.patches import padded, spread, windows
from uclearn.native.calls import Window
from uclearn.sizes import SMALL_DRAW
from uclearn.topology import node_count, node_dim

Sampling = Literal["weight", "local"]


class GaussianLayer(nn.Module):
    """What all Gaussian layers share. A mixin: it stands before the torch layer in the bases."""

    weight: Tensor
    bias: Any  # a tensor or None; torch's layers disagree about the type
    rho: nn.Parameter
    """(nodes,): sigma = softplus(rho)."""
    rho_bias: nn.Parameter | None
    """(nodes,): a standard deviation for each bias, or None for exact biases."""

    sampling: Sampling = "weight"
    draws: bool | None = None
    """True: sample now; False: means now; None: follow train() and eval()."""
    noise: Noise
    listener: Callable[[Tensor], None] | None = None
    """Told what the layer is given, for a while (`uclearn.methods.ucl.seen`)."""
    nodes_first: ClassVar[bool] = True
    """The first dimension of the weight counts the output nodes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.become_gaussian(sigma=0.06)

    def become_gaussian(
        self,
        sigma: float,
        sampling: Sampling = "weight",
        noisy_bias: bool = False,
        noise: Noise | None = None,
    ) -> None:
        """Give a layer that holds only means its standard deviations."""
        remark = " `weight` draws the weights once per batch, `local` draws each example's outputs."
        check_choice("sampling", sampling, get_args(Sampling), remark)
        self.sampling, self.noise, self.draws = sampling, noise or Noise(), None
        kind = torch.promote_types(self.weight.dtype, torch.float32)  # small steps must count
        rho = torch.full((node_count(self),), softplus_inverse(sigma)).to(self.weight.device, kind)
        self.rho = nn.Parameter(rho)
        noisy = noisy_bias and self.bias is not None
        self.register_parameter("rho_bias", nn.Parameter(rho.clone()) if noisy else None)

    @property
    def sigma(self) -> Tensor:
        """(nodes,) the standard deviation of every weight that comes into a node."""
        return F.softplus(self.rho)

    @property
    def sigma_bias(self) -> Tensor | None:
        """(nodes,) the standard deviation of every bias, or None."""
        return None if self.rho_bias is None else F.softplus(self.rho_bias)

    def forward(self, input: Tensor, *others: Any) -> Tensor:
        """As the torch layer, with noise where the layer draws."""
        if self.listener is not None:
            self.listener(input)
        if not (self.training if self.draws is None else self.draws):
            output: Tensor = super().forward(input, *others)
            return output
        if self.sampling == "local":
            return self._local(input, *others)
        return self._by_drawn_weight(input, *others)

    def _by_drawn_weight(self, input: Tensor, *others: Any) -> Tensor:
        return self.apply_weight(input, self._sampled_weight(), self._sampled_bias(), *others)

    def _local(self, input: Tensor, *others: Any) -> Tensor:
        noisy = self._local_at_once(input)
        if noisy is None:
            mean: Tensor = super().forward(input, *others)
            noisy = self._fused_local(mean, input)
        if noisy is not None and self.rho_bias is None:
            return noisy
        shape = (-1,) + (1,) * (-1 - node_dim(self))  # (nodes, 1, ...) against (..., nodes, ...)
        if noisy is None:
            length = self.length(input, *others).to(mean.dtype)
            sigma = self.sigma.to(mean.dtype).view(shape)
            read = self.noise.normals if mean.numel() <= SMALL_DRAW else self.noise.rows
            noisy = add_noise(mean, length, sigma, read(mean.shape, mean.dtype, mean.device))
        if self.rho_bias is None:
            return noisy
        sigma_bias = F.softplus(self.rho_bias).to(noisy.dtype).view(shape)
        return noisy + sigma_bias * self._normals_like(noisy)

    def _local_at_once(self, input: Tensor) -> Tensor | None:
        """The noisy outputs in one step of autograd, where that is possible."""
        return None

    def _fused_local(self, mean: Tensor, input: Tensor) -> Tensor | None:
        """The same from one pass over outputs under the mean weights."""
        return None

    def _sampled_weight(self) -> Tensor:
        if self.nodes_first:
            drawn = fused.draw(self.weight, self.rho, self.noise)
            if drawn is not None:
                return drawn
        blocks = self.blocks(self.weight)
        sigma = self.over_nodes(self.sigma.to(blocks.dtype))
        drawn = sample_weight(blocks, sigma, self._normals_like(blocks))
        return drawn if drawn.dim() == self.weight.dim() else drawn.flatten(0, 1)

    def _sampled_bias(self) -> Tensor | None:
        bias: Tensor | None = self.bias
        if bias is None or self.rho_bias is None:
            return bias
        sigma = F.softplus(self.rho_bias).to(bias.dtype)
        return sample_weight(bias, sigma, self._normals_like(bias))

    def _normals_like(self, like: Tensor) -> Tensor:
        return self.noise.normals(like.shape, like.dtype, like.device)

    # -- what each kind of layer says about itself -------------------------------------------

    def blocks(self, weight: Tensor) -> Tensor:
        """A view of something shaped like the weight; the two views below broadcast over it."""
        return weight

    def over_nodes(self, values: Tensor) -> Tensor:
        """A view of (nodes,) that broadcasts over `blocks`: one value per output node."""
        raise NotImplementedError

    def over_sources(self, values: Tensor) -> Tensor:
        """A view of (input features,) that broadcasts over `blocks`."""
        raise NotImplementedError

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """What the layer computes, with another weight."""
        raise NotImplementedError

    def length(self, input: Tensor, *others: Any) -> Tensor:
        """The length of the vector of inputs that each output sees, broadcastable to it."""
        raise NotImplementedError

    def fan(self) -> int:
        """The n of `Var[w] = 2 / n`: fan-in for linear layers, fan-out for convolutions."""
        raise NotImplementedError

    def inputs_last(self, weight: Tensor) -> Tensor:
        """A view (groups, nodes per group, inputs...) of something shaped like the weight; to nodes
        of a convolution, each position of the kernel in each channel is an input."""
        raise NotImplementedError

    def inputs_seen(self, input: Tensor) -> Tensor:
        """A view (groups, examples, places..., inputs...): all that a node is given, with inputs in
        the order of `inputs_last`."""
        raise NotImplementedError

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for rho in (self.rho, self.rho_bias):
            if rho is not None and rho.dtype in (torch.float16, torch.bfloat16):
                rho.data = rho.data.float()
        return result

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *others)
        _, _, missing_keys, *_ = others
        # a plain state_dict knows nothing of sigma: the present one stays
        for name in ("rho", "rho_bias"):
            if prefix + name in missing_keys:
                missing_keys.remove(prefix + name)


class GaussianLinear(GaussianLayer, nn.Linear):
    """A linear layer; `weight` is (out, in)."""

    def over_nodes(self, values: Tensor) -> Tensor:
        """(out, 1)."""
        return values.unsqueeze(1)

    def over_sources(self, values: Tensor) -> Tensor:
        """(1, in)."""
        return values.unsqueeze(0)

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """Input times weight plus bias."""
        return F.linear(input, weight, bias)

    def length(self, input: Tensor, *others: Any) -> Tensor:
        """(..., 1)."""
        length: Tensor = torch.linalg.vector_norm(input, dim=-1, keepdim=True)
        return length

    def _local_at_once(self, input: Tensor) -> Tensor | None:
        return fused.local_linear(input, self.weight, self.bias, self.rho, self.noise)

    def fan(self) -> int:
        """Fan-in."""
        return self.in_features

    def inputs_last(self, weight: Tensor) -> Tensor:
        """(1, out, in)."""
        return weight.unsqueeze(0)

    def inputs_seen(self, input: Tensor) -> Tensor:
        """(1, examples, places..., in)."""
        return input.view(1, -1, self.in_features) if input.dim() == 1 else input.unsqueeze(0)


class GaussianEmbedding(GaussianLayer, nn.Embedding):
    """An embedding: a linear layer on one-hot inputs, whose nodes are its dimensions."""

    bias = None
    nodes_first = False

    def over_nodes(self, values: Tensor) -> Tensor:
        """(1, dimensions): the table is stored as (words, dimensions)."""
        return values.unsqueeze(0)

    def over_sources(self, values: Tensor) -> Tensor:
        """(words, 1)."""
        return values.unsqueeze(1)

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """Look up the rows."""
        by_count = self.scale_grad_by_freq
        return F.embedding(input, weight, self.padding_idx, scale_grad_by_freq=by_count)

    def length(self, input: Tensor, *others: Any) -> Tensor:
        """(..., 1): a one-hot input has length 1; padding has none."""
        if self.padding_idx is None:
            return self.weight.new_ones((*input.shape, 1))
        return (input != self.padding_idx).to(self.weight.dtype).unsqueeze(-1)

    def _by_drawn_weight(self, input: Tensor, *others: Any) -> Tensor:
        """Of a large table only the rows that are looked up are drawn."""
        if input.numel() >= self.num_embeddings or torch.compiler.is_compiling():
            return super()._by_drawn_weight(input, *others)
        words, places = input.unique(return_inverse=True)
        shape = (self.num_embeddings, self.embedding_dim)
        kind, device = self.weight.dtype, self.weight.device
        normals = self.noise.chosen(words, shape, kind, device) * self.sigma.to(kind)
        if self.padding_idx is not None:
            normals = normals.masked_fill((words == self.padding_idx).unsqueeze(-1), 0)
        mean = self.apply_weight(input, self.weight, None)
        return mean + F.embedding(places, normals)

    def _normals_like(self, like: Tensor) -> Tensor:
        normals = super()._normals_like(like)
        if self.padding_idx is None or like is not self.weight:
            return normals
        normals = normals.clone()
        normals[self.padding_idx] = 0  # padding says nothing, noisily or not
        return normals

    def fan(self) -> int:
        """2, so that the whole variance is 1, as torch draws embeddings."""
        return 2

    def inputs_last(self, weight: Tensor) -> Tensor:
        """(1, dimensions, words)."""
        return weight.t().unsqueeze(0)

    def inputs_seen(self, input: Tensor) -> Tensor:
        """(1, examples, places..., 1): the words themselves; each stands for a one-hot vector."""
        return input.view(1, -1, 1) if input.dim() == 0 else input[None, ..., None]


class _GaussianConv(GaussianLayer):
    """Convolutions; one sigma per output channel."""

    groups: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    out_channels: int

    def blocks(self, weight: Tensor) -> Tensor:
        """(out, in, kernel...), or with groups (groups, out per group, in per group, kernel...)."""
        return self._grouped(weight)

    def over_nodes(self, values: Tensor) -> Tensor:
        """(out, 1, 1...), with groups (groups, out per group, 1, 1...)."""
        return self._grouped(values).unsqueeze(-1)[(..., *self._kernel_dims())]

    def over_sources(self, values: Tensor) -> Tensor:
        """(1, in, 1...), with groups (groups, 1, in per group, 1...)."""
        return self._grouped(values).unsqueeze(-2)[(..., *self._kernel_dims())]

    def _grouped(self, values: Tensor) -> Tensor:
        return values if self.groups == 1 else values.unflatten(0, (self.groups, -1))

    def _kernel_dims(self) -> tuple[None, ...]:
        return (None,) * len(self.kernel_size)

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """The convolution, padding mode included."""
        output: Tensor = self._conv_forward(input, weight, bias)  # type: ignore[operator]
        return output

    def length(self, input: Tensor, *others: Any) -> Tensor:
        """(batch, 1, ...): one channel sum and one box filter serve all output channels; with
        groups, one for each group, repeated over its channels."""
        dim = node_dim(self)
        squares = sum_of_squares(input.unflatten(dim, (self.groups, -1)), dim)
        box = squares.new_ones((self.groups, 1, *self.kernel_size))
        energy = self.apply_weight(squares, box, None, *others)
        # where no input is active the root has a kink; clamping makes its gradient 0 there
        length = energy.clamp_min(torch.finfo(energy.dtype).tiny).sqrt()
        if self.groups == 1:
            return length
        return length.repeat_interleave(self.out_channels // self.groups, dim=dim)

    def fan(self) -> int:
        """Fan-out: how many outputs one input reaches."""
        return self.out_channels // self.groups * math.prod(self.kernel_size)

    def inputs_last(self, weight: Tensor) -> Tensor:
        """(groups, out per group, in per group, kernel...)."""
        by_group: Tensor = weight.unflatten(0, (self.groups, -1))
        return by_group

    def inputs_seen(self, input: Tensor) -> Tensor:
        """(groups, examples, places..., in per group, kernel...)."""
        batched = input if input.dim() == len(self.kernel_size) + 2 else input.unsqueeze(0)
        return self._by_place(self._windows(batched))

    def _windows(self, input: Tensor) -> Tensor:
        return windows(padded(self, input), self.kernel_size, self.stride, self.dilation)

    def _by_place(self, seen: Tensor) -> Tensor:
        """From (examples, channels, places..., kernel...)."""
        places = range(3, 3 + len(self.kernel_size))
        kernel = range(places.stop, places.stop + len(self.kernel_size))
        by_group: Tensor = seen.unflatten(1, (self.groups, -1))
        return by_group.permute(1, 0, *places, 2, *kernel)


class GaussianConv1d(_GaussianConv, nn.Conv1d):
    """A convolution over one dimension; one sigma per output channel."""


class GaussianConv2d(_GaussianConv, nn.Conv2d):
    """A convolution over two dimensions; one sigma per output channel."""

    def _fused_local(self, mean: Tensor, input: Tensor) -> Tensor | None:
        if self.groups > 1 or self.padding_mode != "zeros" or isinstance(self.padding, str):
            return None
        window = Window(self.kernel_size, self.stride, self.padding, self.dilation)
        return fused.local_conv(mean, input, self.rho, self.noise, window)


class GaussianConv3d(_GaussianConv, nn.Conv3d):
    """A convolution over three dimensions; one sigma per output channel."""


class _GaussianConvTranspose(_GaussianConv):
    """Transposed convolutions; `weight` is (in, out per group, kernel...)."""

    nodes_first = False

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """As the torch layer, the wanted output size included."""
        return super().forward(input, output_size)

    def over_nodes(self, values: Tensor) -> Tensor:
        """(1, out, 1...), with groups (groups, 1, out per group, 1...)."""
        return super().over_sources(values)

    def over_sources(self, values: Tensor) -> Tensor:
        """(in, 1, 1...), with groups (groups, in per group, 1, 1...)."""
        return super().over_nodes(values)

    def inputs_last(self, weight: Tensor) -> Tensor:
        """(groups, out per group, in per group, kernel...); stored as (in, out per group, ...)."""
        by_group: Tensor = weight.unflatten(0, (self.groups, -1))
        return by_group.transpose(1, 2)

    def _windows(self, input: Tensor) -> Tensor:
        dims = len(self.kernel_size)
        seen = windows(spread(self, input), self.kernel_size, [1] * dims, self.dilation)
        return seen.flip(*range(-dims, 0))

    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """The transposed convolution; `others` may hold the wanted output size."""
        dims = len(self.kernel_size)
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        output: Tensor = convolve(
            input,
            weight,
            bias,
            self.stride,
            self.padding,  # type: ignore[arg-type]
            self._extra_padding(input, *others),
            self.groups,
            self.dilation,
        )
        return output

    def _extra_padding(self, input: Tensor, *others: Any) -> list[int]:
        padding: list[int] = self._output_padding(  # type: ignore[operator]
            input,
            others[0] if others else None,
            self.stride,
            self.padding,
            self.kernel_size,
            len(self.kernel_size),
            self.dilation,
        )
        return padding


class GaussianConvTranspose1d(_GaussianConvTranspose, nn.ConvTranspose1d):
    """A transposed convolution over one dimension; one sigma per output channel."""


class GaussianConvTranspose2d(_GaussianConvTranspose, nn.ConvTranspose2d):
    """A transposed convolution over two dimensions; one sigma per output channel."""


class GaussianConvTranspose3d(_GaussianConvTranspose, nn.ConvTranspose3d):
    """A transposed convolution over three dimensions; one sigma per output channel."""


def softplus_inverse(sigma: float) -> float:
    """The rho with softplus(rho) = sigma.

    >>> round(math.log1p(math.exp(softplus_inverse(0.06))), 6)
    0.06
    """
    return sigma + math.log(-math.expm1(-sigma))
