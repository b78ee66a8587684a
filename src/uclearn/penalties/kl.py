"""The divergence between two diagonal Gaussians, which holds VCL's posterior to the previous one.

    KL( N(m, v) || N(m', v') ) = 1/2 * sum [ v/v' - 1 - log(v/v') + (m - m')^2 / v' ]

with variances as logarithms, l = log v and d = l - l':

    1/2 * sum [ (e^d - 1) - d + (m - m')^2 e^(-l') ]

and the gradients  (m - m') e^(-l')  for m,  (e^d - 1) / 2  for l. Written with e^d - 1 at once
(`expm1`), value and gradients are exactly 0 where the two distributions agree.
"""

from __future__ import annotations

import torch
from torch import Tensor

from uclearn.penalties.closed_form import known_gradient


def kl(
    mean: Tensor, log_variance: Tensor, prior_mean: Tensor, prior_log_variance: Tensor
) -> Tensor:
    """`KL( N(mean, e^log_variance) || N(prior_mean, e^prior_log_variance) )`, summed over all
    elements, with its closed gradients for `mean` and `log_variance`.

    Args:
        mean: (...) the means being learned.
        log_variance: (...) the logarithms of their variances.
        prior_mean: (...) the means to stay close to.
        prior_log_variance: (...) the logarithms of their variances.

    By hand: N(3, 1) from N(1, 1): 1/2 * (1 - 1 - 0 + 2^2) = 2.

    >>> kl(torch.tensor([3.0]), torch.zeros(1), torch.tensor([1.0]), torch.zeros(1))
    tensor(2.)
    """
    value, gradients = kl_and_gradients(mean, log_variance, prior_mean, prior_log_variance)
    return known_gradient(value, [mean, log_variance], gradients)


@torch.no_grad()
def kl_and_gradients(
    mean: Tensor, log_variance: Tensor, prior_mean: Tensor, prior_log_variance: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The value, and its gradients for `mean` and `log_variance`."""
    moved = mean - prior_mean
    pull = (-prior_log_variance).exp_().mul_(moved)
    widened = log_variance - prior_log_variance
    growth = widened.expm1()
    value = (torch.dot(pull.flatten(), moved.flatten()) + (growth - widened).sum()) / 2
    return value, (pull, growth.div_(2))


@torch.no_grad()
def add_kl_gradients(
    gradients: tuple[Tensor, Tensor],
    mean: Tensor,
    log_variance: Tensor,
    prior_mean: Tensor,
    prior_log_variance: Tensor,
    scale: float = 1.0,
) -> None:
    """Add the gradients for `mean` and `log_variance`, times `scale`, to `gradients` in place."""
    of_mean, of_log_variance = gradients
    of_mean.addcmul_(mean - prior_mean, (-prior_log_variance).exp_(), value=scale)
    of_log_variance.add_((log_variance - prior_log_variance).expm1_(), alpha=scale / 2)
