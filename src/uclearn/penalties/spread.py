"""Term (b) of eq. (3) and eq. (6) of the paper: what happens to the uncertainty of nodes.

    1/2 * sum_i [ (sigma_i/sigma'_i)^2 - log (sigma_i/sigma'_i)^2  +  sigma_i^2 - log sigma_i^2 ]

The first two keep a node as certain as it was; the last two, eq. (6), let go: together they are
least at sigma = sqrt(2 / (1/sigma'^2 + 1)), close to sqrt(2) sigma'. The gradient is
sigma/sigma'^2 - 2/sigma + sigma.
"""

from __future__ import annotations

import torch
from torch import Tensor

from uclearn.penalties.closed_form import known_gradient


def spread(sigma: Tensor, previous: Tensor, *, inflate: bool = True) -> Tensor:
    """Terms (b) + eq. (6), summed over nodes (one term per node, not per weight).

    Args:
        sigma: (nodes,) the standard deviations being learned.
        previous: (nodes,) those that the previous task left.
        inflate: eq. (6); without it sigma stays near `previous` (the paper's "without (6)").

    By hand: sigma = sigma' = 1: 1/2 * (1 - 0 + 1 - 0) = 1.

    >>> spread(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor(1.)
    """
    with torch.no_grad():
        value, gradient = spread_and_gradient(sigma, previous, inflate=inflate)
    return known_gradient(value, [sigma], [gradient])


def spread_and_gradient(
    sigma: Tensor, previous: Tensor, *, inflate: bool = True
) -> tuple[Tensor, Tensor]:
    """The value and its gradient with respect to sigma."""
    ratio = (sigma / previous).square_()
    total = ratio.sub_(ratio.log())
    if inflate:
        square = sigma.square()
        total = total.add_(square).sub_(square.log_())
    return total.sum() / 2, spread_gradient(sigma, previous, inflate=inflate)


def spread_gradient(sigma: Tensor, previous: Tensor, *, inflate: bool = True) -> Tensor:
    """(nodes,) `sigma/sigma'^2 - 2/sigma + sigma`; without eq. (6) `sigma/sigma'^2 - 1/sigma`."""
    gradient = (sigma / previous).div_(previous)
    if inflate:
        return gradient.add_(sigma).sub_(sigma.reciprocal(), alpha=2)
    return gradient.sub_(sigma.reciprocal())
