"""Where means and standard deviations start (paper, supplement 2).

- constant: the same sigma everywhere, means drawn as He does;
- adaptive: of the variance 2/n that He gives a weight, the share `ratio` goes to the noise,
  sigma^2 = ratio * 2/n, and the rest to the means, Var[mean] = (1 - ratio) * 2/n;
- either sigma with the means left as they are, for a network that has already learned.

n is the fan-in of a linear layer and the fan-out of a convolution. Biases start at 0.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import nn

from uclearn.errors import SettingError
from uclearn.gaussian.layers import GaussianLayer

Means = Literal["keep", "draw"]


def initial_sigma(layer: GaussianLayer, sigma: float | None, ratio: float | None) -> float:
    """The standard deviation that a layer's nodes start with: `sigma` itself, or by `ratio`.

    >>> from uclearn.gaussian.layers import GaussianLinear
    >>> round(initial_sigma(GaussianLinear(400, 10), sigma=None, ratio=0.5), 6)
    0.05
    """
    if sigma is not None:
        return sigma
    check_initial(sigma, ratio)
    assert ratio is not None
    return math.sqrt(ratio * 2 / layer.fan())


def check_initial(sigma: float | None, ratio: float | None) -> None:
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
    if sigma is not None and not (sigma > 0 and math.isfinite(sigma)):
        raise SettingError(
            f"`sigma` must be positive and finite, got {sigma}. It is the initial standard "
            "deviation of every weight; the paper uses 0.06."
        )


def check_means(means: str) -> None:
    """One of the two choices."""
    if means not in get_args(Means):
        raise SettingError(
            f"`means` must be one of {', '.join(get_args(Means))}, got {means!r}. `keep` leaves "
            "the weights of the given model, `draw` draws new ones."
        )


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
