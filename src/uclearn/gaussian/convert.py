"""From any plain network to one with node-wise uncertainty, and back.

Conversion works on a copy. What it does with which module, `survey` says: whatever cannot be
handled is listed whole, with reason and remedy, or left as it is.

Where means and standard deviations start (paper, supplement 2):

- constant: the same sigma everywhere, means drawn as He does;
- adaptive: of the variance 2/n that He gives a weight, the share `ratio` goes to the noise,
  sigma^2 = ratio * 2/n, and the rest to the means, Var[mean] = (1 - ratio) * 2/n;
- either sigma with the means left as they are, for a network that has already learned.

n is the fan-in of a linear layer and the fan-out of a convolution. Biases start at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import torch
from torch import nn

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.gaussian.kinds import gaussian_version, plain_version, steady_version
from uclearn.gaussian.layers import GaussianLayer, Sampling
from uclearn.gaussian.noise import Noise
from uclearn.gaussian.survey import require_convertible, survey
from uclearn.topology import copied

Means = Literal["keep", "draw"]
Sigma = float | Callable[[GaussianLayer], float]
"""One initial standard deviation for all layers, or a rule for each."""


def initial_sigma(layer: GaussianLayer, sigma: Sigma | None, ratio: float | None) -> float:
    """The standard deviation that a layer's nodes start with: `sigma` itself (or what it makes of
    the layer), or by `ratio`.

    >>> from uclearn.gaussian.layers import GaussianLinear
    >>> round(initial_sigma(GaussianLinear(400, 10), sigma=None, ratio=0.5), 6)
    0.05
    """
    if sigma is not None:
        return sigma(layer) if callable(sigma) else sigma
    check_initial(sigma, ratio)
    assert ratio is not None
    return math.sqrt(ratio * 2 / layer.fan())


def check_initial(sigma: Sigma | None, ratio: float | None) -> None:
    """Exactly one of the two, each in its range."""
    if (sigma is None) == (ratio is None):
        raise SettingError(
            f"Give either `sigma` or `ratio`, not both and not neither: got sigma={sigma}, "
            f"ratio={ratio}. `sigma` is one initial standard deviation for all layers, `ratio` "
            "the share of each layer's initial variance given to noise."
        )
    if ratio is not None and not 0 < ratio < 1:
        raise SettingError(
            f"`ratio` must lie strictly between 0 and 1, got {ratio}. It is the share of the "
            "initial variance given to noise."
        )
    if sigma is not None and not callable(sigma) and not (sigma > 0 and math.isfinite(sigma)):
        raise SettingError(
            f"`sigma` must be positive and finite, got {sigma}. It is the initial standard "
            "deviation of every weight; the paper uses 0.06."
        )


def check_means(means: str) -> None:
    """One of the two choices."""
    remark = " `keep` leaves the weights of the given model, `draw` draws new ones."
    check_choice("means", means, get_args(Means), remark)


def draw_means(layer: GaussianLayer, ratio: float | None, generator: torch.Generator) -> None:
    """New means, uniform with variance (1 - ratio) * 2/n, and biases 0. Without a ratio all of
    He's variance goes to the means."""
    fan = layer.fan()
    bound = math.sqrt(3 * (1 - (ratio or 0.0)) * 2 / fan)
    with torch.no_grad():
        fresh = torch.empty(layer.weight.shape, device="cpu")
        fresh.uniform_(-bound, bound, generator=generator)
        layer.weight.copy_(fresh)
        if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
            layer.weight[layer.padding_idx] = 0
        if layer.bias is not None:
            layer.bias.zero_()


def convert(
    model: nn.Module,
    *,
    sigma: Sigma | None = None,
    ratio: float | None = None,
    means: Means = "keep",
    sampling: Sampling = "weight",
    noisy_bias: bool = False,
    plain: Iterable[str] = (),
    strict: bool = True,
    loose: Iterable[str] = (),
    noise: Noise | None = None,
    seed: int = 0,
) -> nn.Module:
    """A copy of `model` whose layers are Gaussian; in `eval()` it computes the same, to the bit,
    unless `means="draw"`. Frozen weights stay where they are in memory.

    Args:
        model: left untouched.
        sigma: one initial standard deviation for all layers, or a rule for each; or
        ratio: the share of each layer's initial variance given to noise.
        means: `"keep"` the weights of `model`, or `"draw"` new ones as He does.
        sampling: `"weight"` (one draw of the weights per forward pass) or `"local"`.
        noisy_bias: give each bias a standard deviation too.
        plain: qualified names of modules that stay as they are (heads).
        strict: refuse what is not known exactly; otherwise it stays as it is.
        loose: with `strict=False`, layers that stay as they are, too.
        noise: the stream of normal numbers that all layers share.
        seed: for drawn means.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> noisy, x = convert(net, sigma=0.1), torch.randn(3, 4)
    >>> torch.equal(noisy.eval()(x), net(x)), torch.equal(noisy.train()(x), net(x))
    (True, False)
    """
    check_initial(sigma, ratio)
    check_means(means)
    plain = tuple(plain)
    loose = tuple(loose)
    require_convertible(survey(model, plain, strict=strict, loose=loose))
    converted: nn.Module = copied(model, share="frozen")
    found = survey(converted, plain, strict=strict, loose=loose)
    noise = noise or Noise(seed)
    generator = torch.Generator().manual_seed(seed)
    for layer in found.layers.values():
        gaussian_layer = _swap_class(layer)
        start = initial_sigma(gaussian_layer, sigma, ratio)
        gaussian_layer.become_gaussian(start, sampling, noisy_bias, noise)
        if means == "draw":
            draw_means(gaussian_layer, ratio, generator)
    for norm in found.norms.values():
        norm.__class__ = steady_version(type(norm))
    return converted


def export(model: nn.Module) -> nn.Module:
    """A copy of a converted model made of the original classes, with the mean weights."""
    plain: nn.Module = copied(model)
    for module in plain.modules():
        if isinstance(module, GaussianLayer):
            del module.rho, module.rho_bias
            for attribute in ("noise", "sampling", "draws", "listener"):
                module.__dict__.pop(attribute, None)
        module.__dict__.pop("steady", None)
        module.__class__ = plain_version(type(module))
    return plain


def _swap_class(layer: nn.Module) -> GaussianLayer:
    # the copy keeps its hooks, names and tensors; only what it computes changes
    layer.__class__ = gaussian_version(type(layer)) or type(layer)
    assert isinstance(layer, GaussianLayer)
    return layer
