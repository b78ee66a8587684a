"""Settings by rule: what `"auto"` comes to.

With Adam a step moves rho by about `lr_sigma`, whatever the gradient, so a node's log sigma can go
`lr_sigma * steps` at most in a task. That way must not depend on how long a task is trained:

    lr_sigma = REACH / steps of a task, but at most WANDER / sqrt(steps)

The gradients of sigma are mostly noise, and noise alone takes log sigma about lr_sigma sqrt(steps)
to either side: in a task of a few dozen steps the first would be an earthquake, not a way.

Noise is measured by what it disturbs, so that finished weights keep what they know:

    sigma = sqrt(NOISE) * root mean square of the layer's weights

What layer after layer adds piles up, so it is little: a deep network learns as fast as without.

Where sigma comes to rest, the loss's curvature h_i along the weights of node i and the pull of term
(b) and eq. (6) balance: sigma_i^2 (B h_i + beta/sigma'^2 + beta) = 2 beta for batches of B. Its
strength s_i^2 = sigma_init^2 / sigma_i^2 grows by sigma_init^2 B h_i / (2 beta), and eq. (4),
divided by B, then weighs a change of the n weights of the node by h_i sigma_init^2 n / (2 beta)
when what the node is given has unit size (`uclearn.penalties.outputs`): a second-order picture of
the old tasks' loss, times that factor. The batch size has gone, and the factor should be the same
for every network:

    beta = sigma_init^2 n / (2 CAUTION)

averaged over layers (geometrically); what a layer differs from that is made up by its weight in
eq. (4). A Bayesian who trusts the picture would take CAUTION = 1. It is a picture of the near
neighbourhood only, hence more. Where all that could be looked at of a pretrained network are inputs
of the first new task, it is 1 (GUESSED), or nothing new could be learned from them.

In a short task sigma has no time to come to rest. So when a task ends, the curvature is measured as
well, by the network's own answers to what it was given (`pretrained.py`), and a node gains at least
a share of what the balance would give it:

    s_i^2 >= s_i'^2 + MEASURED sigma_init^2 B H_i / (2 beta)

When a task of acting ends, it is measured by the chances of fresh actions, and a node gains just
that. There the loss would not do, however long: an advantage is as often negative as positive, and
so is the curvature that sigma feels in the actor; in the critic it becomes certain of values that
nobody will ask for again, and a critic that is held cannot judge the next task (it has only the
floor below). And since advantages are standardised and mostly chance, what they pull by is small
against a loss in nats: a layer gains at most MOST_OF_ACTIONS (below).

A convolution says much the same at neighbouring places, and its kernels move together, which a
picture node by node does not see: compared with the true loss along the way of the next task, it is
a quarter of what it is in linear layers. So there all of it counts (MEASURED_OF_PLACES).

The picture is of the near neighbourhood, and the loss levels off beyond it: a network of ten
classes that says nothing any more has lost log 10 = 2.3, and not a hundred times that. Where much
hangs on a few directions, as in the first convolutions of natural images, the picture says so, and
would stiffen a layer a hundredfold with every task. So a convolution gains no more than that, by
eq. (4), to undo all that its nodes say costs PRICE nats:

    1/B * eq. (4) of the whole layer, from its weights to 0   <=   PRICE

whatever the units of weights and inputs, the size of batches and the norms that follow.

A pull that is too stiff for the optimiser's steps would throw weights about: a plain gradient step
of lr overshoots where lr times the curvature of eq. (4) is over 2. So what is measured counts up to

    s_i^2 - 1 <= STABLE B / (lr lambda),   lambda the largest eigenvalue of what the layer was given

A node that is held so firmly hardly moves in a step anyway. Of Adam, whose lr is small, it is no
bound in practice; where nobody said lr, it is taken to be LR.

Strengths add up from task to task. But the more is held, the less moves, and the better the picture
holds for what does: of t tasks it needs less caution than of one.

    eq. (4) of t tasks: their sum / sqrt(t)

A parameter of no known node has no sigma. Each of its rows, of n numbers, is held by as much as a
node of that curvature would be, v_r = ALONE CAUTION B H_r / n in place of s_i^2 - 1 (`loose.py`).

A node that no task needed has s_i = 1: there is no evidence that anything hangs on it, and it may
learn what it likes. But what it says to the inputs of earlier tasks should not change at random
either, since certain nodes listen to it. So it is held by a share of what the layer is held by on
average. And where a task is known by heart, the curvature of its loss vanishes, though it can be
forgotten all the same: a floor holds every node a little.

    evidence_i = max(s_i^2 - 1, 0) + IDLE * mean over the layer of the same + FLOOR

All numbers were chosen on digits, Split MNIST and the small notMNIST (docs/rules.md), but for that
of actions, on robots (docs/rl.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.convert import initial_sigma

Auto = Literal["auto"]

REACH = 10.0
WANDER = 0.3
MEASURED = 0.3
MEASURED_OF_PLACES = 1.0
"""The same for convolutions."""
PRICE = 5.0
"""What it may cost, in nats, to undo all that a convolution says, by what it gains at once."""
MOST_OF_ACTIONS = 1.0
"""What nodes gain on average, in squared strength, where a task was learned by acting."""
STABLE = 0.5
LR = 0.1
ALONE = 1.0
"""In place of MEASURED, for parameters that have no sigma to be certain by."""
NOISE = 0.003
CAUTION = 100.0
GUESSED = 0.01
"""Of CAUTION, where the curvature was measured on other inputs than those that were learned."""
IDLE = 0.3
FLOOR = 0.3
STEPS = 1000
"""What a task is taken to have while nobody has said and none has been learned."""


def sigma_by_rule(layer: GaussianLayer) -> float:
    """`sqrt(NOISE)` of the root mean square of the layer's weights; where they are all zero, of
    what He would give them.

    >>> from uclearn.gaussian.layers import GaussianLinear
    >>> layer = GaussianLinear(4, 2)
    >>> _ = layer.weight.data.fill_(0.5)
    >>> round(sigma_by_rule(layer), 4)
    0.0274
    """
    weight = layer.weight.detach()
    length = float(torch.linalg.vector_norm(weight, dtype=torch.float64))
    size = length / math.sqrt(weight.numel())
    return math.sqrt(NOISE) * size if size > 0 else initial_sigma(layer, None, NOISE)


def lr_sigma_by_rule(steps: int | None) -> float:
    """`REACH / steps`, at most `WANDER / sqrt(steps)`.

    >>> lr_sigma_by_rule(10_000), lr_sigma_by_rule(100)
    (0.001, 0.03)
    """
    steps = steps or STEPS
    return min(REACH / steps, WANDER / math.sqrt(steps))


def share_of_measured(layer: GaussianLayer) -> float:
    """Of the measured strength of a layer's nodes, what counts when a task ends.

    >>> from uclearn.gaussian.layers import GaussianConv2d, GaussianLinear
    >>> share_of_measured(GaussianLinear(4, 2)), share_of_measured(GaussianConv2d(4, 2, 3))
    (0.3, 1.0)
    """
    return MEASURED if layer.weight.dim() <= 2 else MEASURED_OF_PLACES


def affordable(price: float) -> float:
    """Of what a convolution would gain, what it gains, if to undo all of it cost `price`.

    >>> affordable(2.0), affordable(20.0)
    (1.0, 0.25)
    """
    return min(1.0, PRICE / price) if price > 0 else 1.0


def most_held(steepness: float, batch_size: int, lr: float | None) -> float:
    """Squared strength by which a node is held at most, from the largest eigenvalue of what its
    layer was given, times what its eq. (4) is multiplied by.

    >>> most_held(8.0, batch_size=64, lr=0.1), most_held(8.0, batch_size=64, lr=None)
    (41.0, 41.0)
    """
    rate = LR if lr is None else lr
    return 1 + STABLE * batch_size / max(rate * steepness, 1e-12)


def gained_by_acting(measured: Tensor) -> Tensor:
    """(nodes,) in squared strength, of a layer's measured ones: at most 1 on average.

    >>> import torch
    >>> gained_by_acting(torch.tensor([0.2, 0.3])), gained_by_acting(torch.tensor([1.0, 4.0]))
    (tensor([0.2000, 0.3000]), tensor([0.4000, 1.6000]))
    """
    return measured * (MOST_OF_ACTIONS / measured.mean()).clamp_max(1)


def evidence(strength: Tensor) -> Tensor:
    """(nodes,) by how much each node of a layer is held, from its strength.

    >>> import torch
    >>> evidence(torch.tensor([1.0, 3.0]))
    tensor([1.5000, 9.5000])
    """
    return weighed((strength.square() - 1).clamp_min(0))


def weighed(gained: Tensor, floor: float = FLOOR) -> Tensor:
    """The same, from what nodes have gained over 1 in squared strength."""
    return gained + IDLE * gained.mean() + floor


def share_of_sum(tasks: int) -> float:
    """Of what so many tasks would hold together, what is held.

    >>> share_of_sum(0), share_of_sum(1), share_of_sum(4)
    (1.0, 1.0, 0.5)
    """
    return 1 / math.sqrt(max(tasks, 1))


class Start(NamedTuple):
    """Where a layer starts."""

    sigma: float
    inputs: int
    """Weights of a node."""

    @property
    def spread(self) -> float:
        """sigma_init^2 n / 2: the share of He's variance that is noise."""
        return self.sigma**2 * self.inputs / 2


def beta_by_rule(starts: Iterable[Start]) -> float:
    """`sigma_init^2 n / (2 CAUTION)`, the geometric mean over layers.

    >>> round(beta_by_rule([Start(math.sqrt(2 * 0.1 / 400), 400)]), 6)
    0.001
    """
    return _usual_spread(starts) / CAUTION


def caution(starts: Iterable[Start], beta: float) -> float:
    """How many times the curvature of old tasks is held, with a `beta` of one's own.

    >>> round(caution([Start(math.sqrt(2 * 0.1 / 400), 400)], beta=0.01), 6)
    10.0
    """
    return _usual_spread(starts) / beta if beta > 0 else 0.0


def _usual_spread(starts: Iterable[Start]) -> float:
    """The geometric mean; 1 where no layer has noise, so that nothing hangs on beta."""
    logs = [math.log(start.spread) for start in starts]
    return math.exp(sum(logs) / max(len(logs), 1))


def evened(start: Start, beta: float) -> float:
    """What a layer's eq. (4) is multiplied by, so that all layers have the same factor.

    >>> round(evened(Start(math.sqrt(2 * 0.1 / 400), 400), 0.002), 6)
    2.0
    """
    return CAUTION * beta / start.spread
