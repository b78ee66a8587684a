"""Layers with a mean and a variance for every weight and every bias.

    w ~ N(mean, e^log_variance),   each independent of all others

As the layers in `uclearn.gaussian` they are subclasses of the torch layers that they replace, and
`weight` and `bias` are the means. Unlike those they have a variance per weight, and make several
draws in one forward pass: their input is (draws * batch, ...), each draw's part first to last.
Every layer keeps the distribution that it is to stay close to, the prior, beside its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian.functions import sample_weight
from uclearn.methods.vcl.draws import WeightDraws


class Posterior(NamedTuple):
    """The distribution of a weight (or bias) tensor and its prior; all four of its shape."""

    mean: nn.Parameter
    log_variance: nn.Parameter
    prior_mean: Tensor
    prior_log_variance: Tensor


class MeanFieldLayer(nn.Module):
    """What all of them share. A mixin: it stands before the torch layer in the bases."""

    draws: WeightDraws
    place: str
    """Its name in the network, by which a prediction finds its noise again."""
    partial: bool = False
    """Whether it may get some examples of a batch only, as a head does."""

    def become_mean_field(
        self, place: str, log_variance: float, prior_variance: float, draws: WeightDraws
    ) -> None:
        """Give a layer that holds only means its variances, and the prior N(0, prior_variance).
        Frozen parameters stay exact."""
        self.place, self.draws = place, draws
        self._seen_at_rest: list[tuple[int, int]] = []
        for name, mean in list(self.named_parameters(recurse=False)):
            if not mean.requires_grad:
                continue
            spread = nn.Parameter(torch.full_like(mean, log_variance))
            self.register_parameter(f"{name}_log_variance", spread)
            self.register_buffer(f"prior_{name}", torch.zeros_like(mean.detach()))
            prior = torch.full_like(mean.detach(), prior_variance).log()
            self.register_buffer(f"prior_{name}_log_variance", prior)

    def posteriors(self) -> Iterator[Posterior]:
        """That of the weights and that of the biases, where the layer has them."""
        found = (self.posterior(name) for name in ("weight", "bias"))
        return (posterior for posterior in found if posterior is not None)

    def posterior(self, name: str) -> Posterior | None:
        """That of `weight` or of `bias`; None for what is frozen or missing."""
        if f"{name}_log_variance" not in self._parameters:
            return None
        names = (name, f"{name}_log_variance", f"prior_{name}", f"prior_{name}_log_variance")
        return Posterior(*(getattr(self, n) for n in names))

    @torch.no_grad()
    def remember(self) -> None:
        """What was learned is the next task's prior."""
        for mean, log_variance, prior_mean, prior_log_variance in self.posteriors():
            prior_mean.copy_(mean)
            prior_log_variance.copy_(log_variance)

    @torch.no_grad()
    def extend(self, log_variance: float, prior_variance: float, growth: Any) -> None:
        """After it has grown (`growth`: a `uclearn.surgery.growth.Growth`): new weights vary, and
        have a prior, as in the beginning."""
        for name in ("weight", "bias"):
            if (posterior := self.posterior(name)) is not None:
                new = ~growth.is_old(self, name).to(posterior.mean.device)
                posterior.log_variance.masked_fill_(new, log_variance)
                posterior.prior_log_variance.masked_fill_(new, math.log(prior_variance))
        self._seen_at_rest = []

    def at_rest(self) -> bool:
        """Whether it is exactly its prior. Only told on a CPU: elsewhere asking would stall."""
        now = [(id(p), p._version) for p in self._parameters.values() if p is not None]
        if now != self._seen_at_rest:  # nothing was written to them since
            if not all(_agrees(posterior) for posterior in self.posteriors()):
                return False
            self._seen_at_rest = now
        return True

    def forward(self, input: Tensor, *others: Any) -> Tensor:
        """As the torch layer with the means, or with as many drawn weights as draws are made."""
        if not self.draws.now:
            output: Tensor = super().forward(input, *others)
            return output
        if self.draws.draws_outputs:
            return self._drawn_outputs(input, *others)
        weight, bias = self._drawn("weight"), self._drawn("bias")
        assert weight is not None
        apart = self.draws.apart(input, self.partial)
        return self.compute(apart, weight, bias, *others).flatten(0, 1)

    def compute(self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any) -> Tensor:
        """What the layer computes, draw by draw: (draws, batch, ...) with (draws, out, in, ...)
        and (draws, out) gives (draws, batch, ...)."""
        raise NotImplementedError

    def _drawn_outputs(self, input: Tensor, *others: Any) -> Tensor:
        """What independent Gaussian weights say is Gaussian, too (Kingma, Salimans, Welling, 2015):

            y ~ N( mean x + mean_bias,  variance x^2 + variance_bias )

        for each example and node on its own. That is cheaper than weights for each draw, and as
        every example has noise of its own, a batch averages over many draws.
        """
        mean = self.whole(input, self._moment("weight", 0), self._moment("bias", 0), *others)
        squares = input.square() if input.is_floating_point() else input
        moments = (self._moment("weight", 1), self._moment("bias", 1))
        variance = self.whole(squares, *moments, *others)
        normals = self.draws.noise.normals(tuple(mean.shape), mean.dtype, mean.device)
        # where nothing varies the root has no slope
        return torch.addcmul(mean, (variance + 1e-16).sqrt(), normals)

    def _moment(self, name: str, which: int) -> Tensor | None:
        """The mean (0) or the variance (1) of the weights or the biases."""
        mean: Tensor | None = getattr(self, name, None)
        if mean is None or which == 0:
            return mean
        posterior = self.posterior(name)
        return torch.zeros_like(mean) if posterior is None else posterior.log_variance.exp()

    def whole(
        self, input: Tensor, weight: Tensor | None, bias: Tensor | None, *others: Any
    ) -> Tensor:
        """What the layer computes with one set of weights, for all rows of its input."""
        assert weight is not None
        above = None if bias is None else bias.unsqueeze(0)
        return self.compute(input.unsqueeze(0), weight.unsqueeze(0), above, *others).squeeze(0)

    def _drawn(self, name: str) -> Tensor | None:
        """(draws, ...) the weights or the biases of each draw."""
        mean: Tensor | None = getattr(self, name, None)
        if mean is None:
            return None
        means = mean.expand(self.draws.now, *mean.shape)
        posterior = self.posterior(name)
        if posterior is None:
            return means
        normals = self.draws.normals(f"{self.place}.{name}", mean)
        return sample_weight(means, (posterior.log_variance / 2).exp(), normals)


def _agrees(posterior: Posterior) -> bool:
    mean, log_variance, prior_mean, prior_log_variance = posterior
    return (
        mean.device.type == "cpu"
        and torch.equal(mean, prior_mean)
        and torch.equal(log_variance, prior_log_variance)
    )


class MeanFieldLinear(MeanFieldLayer, nn.Linear):
    """A linear layer."""

    def compute(self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any) -> Tensor:
        """One batched matrix product."""
        rows = input.flatten(1, -2)  # (draws, rows, in)
        if bias is None:
            output = torch.bmm(rows, weight.mT)
        else:
            output = torch.baddbmm(bias.unsqueeze(1), rows, weight.mT)
        return output.view(*input.shape[:-1], self.out_features)


class MeanFieldEmbedding(MeanFieldLayer, nn.Embedding):
    """An embedding; the row of `padding_idx` is as noisy as the others."""

    def compute(self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any) -> Tensor:
        """One look-up in the tables of all draws, one below the other."""
        first = torch.arange(len(weight), device=input.device) * self.num_embeddings
        rows = input + first.view(-1, *[1] * (input.dim() - 1))
        return F.embedding(rows, weight.flatten(0, 1))


class _MeanFieldConv(MeanFieldLayer):
    """Convolutions: draws are groups of channels, side by side in one convolution."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    padding_mode: Any
    _reversed_padding_repeated_twice: list[int]

    def compute(self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: Any) -> Tensor:
        """(batch, draws * channels, ...), convolved with `draws * groups` groups."""
        beside = input.transpose(0, 1).flatten(1, 2)
        kernels = weight.flatten(0, 1)
        flat = None if bias is None else bias.flatten()
        output = self.convolve(beside, kernels, flat, len(weight) * self.groups, *others)
        apart: Tensor = output.unflatten(1, (len(weight), -1)).transpose(0, 1)
        return apart

    def convolve(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, *others: Any
    ) -> Tensor:
        """The convolution with other weights and groups, padding mode included."""
        convolve = (F.conv1d, F.conv2d, F.conv3d)[weight.dim() - 3]
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return convolve(padded, weight, bias, self.stride, 0, self.dilation, groups)


class MeanFieldConv1d(_MeanFieldConv, nn.Conv1d):
    """A convolution over one dimension."""


class MeanFieldConv2d(_MeanFieldConv, nn.Conv2d):
    """A convolution over two dimensions."""


class MeanFieldConv3d(_MeanFieldConv, nn.Conv3d):
    """A convolution over three dimensions."""


class MeanFieldConvTranspose2d(_MeanFieldConv, nn.ConvTranspose2d):
    """A transposed convolution."""

    def convolve(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, *others: Any
    ) -> Tensor:
        """The transposed convolution; `others` may hold the wanted output size."""
        wanted = others[0] if others else None
        size = list(self.kernel_size)
        stride, padding, dilation = self.stride, self.padding, self.dilation
        extra = self._output_padding(input, wanted, stride, padding, size, 2, dilation)
        return F.conv_transpose2d(input, weight, bias, stride, padding, extra, groups, dilation)


_MEAN_FIELD: dict[type[nn.Module], type[MeanFieldLayer]] = {
    nn.Linear: MeanFieldLinear,
    nn.Conv1d: MeanFieldConv1d,
    nn.Conv2d: MeanFieldConv2d,
    nn.Conv3d: MeanFieldConv3d,
    nn.ConvTranspose2d: MeanFieldConvTranspose2d,
    nn.Embedding: MeanFieldEmbedding,
}


def mean_field(
    name: str, layer: nn.Module, log_variance: float, prior_variance: float, draws: WeightDraws
) -> MeanFieldLayer:
    """Turn a plain layer, in place, into the same with a variance for every weight."""
    converted = _MEAN_FIELD.get(type(layer))
    if converted is None:
        known = ", ".join(kind.__name__ for kind in _MEAN_FIELD)
        raise UnsupportedLayerError(
            f"{name} ({type(layer).__name__}) has no version with a variance for every weight. "
            f"Known layers: {known}. Use one of them, or name it in `plain`."
        )
    layer.__class__ = converted  # it keeps its hooks, names and tensors
    assert isinstance(layer, MeanFieldLayer)
    layer.become_mean_field(name, log_variance, prior_variance, draws)
    return layer
