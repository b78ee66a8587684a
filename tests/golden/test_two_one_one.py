"""UCL's penalty on a whole network, small enough for paper.

The network has two inputs, one hidden node h and one output node o; sigma_init = 1/2.

The first task leaves (')      The second moves to          so d =
    weights into h  ( 1, -2)       ( 2, -2)                     (1, 0)
    bias of h         1              0                           -1
    weight h -> o     3              1                           -2
    bias of o         0              1                            1
    sigma of h       1/4            1/2
    sigma of o       1/2            1/2

Strengths s = sigma_init / sigma': s_h = 2, s_o = 1, inputs of the network 0. A weight is held by
the stronger of its two ends: Lambda = (2, 2) into h, max(1, 2) = 2 for h -> o; a bias by its own
node: 2 and 1.

    eq. (4)  1/2 [ (2*1)^2 + (2*0)^2 + (2*-1)^2 + (2*-2)^2 + (1*1)^2 ] = 1/2 (4 + 0 + 4 + 16 + 1)
                                                                       = 12.5
    eq. (5)  (s mean')^2 |d|:  (2*1)^2*1 + (2*-2)^2*0 + (2*1)^2*1 + (1*3)^2*2 + (1*0)^2*1
                            =  4 + 0 + 4 + 18 + 0                      = 26
    eq. (6)  with (b), beta = 1/10:
             h: (sigma/sigma')^2 = 4:  4 - log 4 + 1/4 - log 1/4       = 4.25
             o: (sigma/sigma')^2 = 1:  1 - log 1 + 1/4 - log 1/4       = 1.25 + log 4
             1/20 (5.5 + log 4)                                        = 0.275 + 0.1 log 2

The sum is 38.775 + 0.1 log 2 = 38.8443147..., divided by a batch of 4: 9.7110787...

Gradients, times 1/4:
    Lambda^2 d + (s mean')^2 sign d:  into h (4 + 4, 0),  bias of h -4 - 4,  h -> o  -8 - 9,
                                      bias of o 1 + 0
    beta (sigma/sigma'^2 - 2/sigma + sigma):  h  0.1 (8 - 4 + 0.5) = 0.45
                                              o  0.1 (2 - 4 + 0.5) = -0.15
    and for rho, as sigma = log(1 + e^rho), times dsigma/drho = 1 - e^-sigma = 1 - e^-0.5.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.gaussian.layers import softplus_inverse

BETA, BATCH = 0.1, 4
EQUATION_4, EQUATION_5 = 12.5, 26.0
TERM_B = 0.05 * (4 - math.log(4) + 1)  # (sigma/sigma')^2 - log (sigma/sigma')^2 of h and of o
EQUATION_6 = 0.05 * 2 * (0.25 + math.log(4))  # sigma^2 - log sigma^2, twice


def set_weights(method: UCL, values: dict[str, list[float] | list[list[float]]]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            method.model.get_parameter(name).copy_(torch.tensor(value))


def second_task(**settings: Any) -> UCL:
    """The method as it stands in the middle of the second task."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    method = paper_ucl(
        net, torch.zeros(1, 2).double(), beta=BETA, sigma=0.5, alpha=0.01, **settings
    )
    quarter, half = softplus_inverse(0.25), softplus_inverse(0.5)
    set_weights(
        method,
        {
            "0.weight": [[1.0, -2.0]],
            "0.bias": [1.0],
            "2.weight": [[3.0]],
            "2.bias": [0.0],
            "0.rho": [quarter],
            "2.rho": [half],
        },
    )
    method.end_task()
    set_weights(
        method,
        {
            "0.weight": [[2.0, -2.0]],
            "0.bias": [0.0],
            "2.weight": [[1.0]],
            "2.bias": [1.0],
            "0.rho": [half],
        },
    )
    return method


def assert_near(found: torch.Tensor, expected: object) -> None:
    # rho starts in single precision, so sigma_init is 1/2 to seven digits only
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


def test_the_strengths() -> None:
    strengths = second_task().strengths()
    assert_near(strengths["0"], [2.0])
    assert_near(strengths["2"], [1.0])


def test_the_value() -> None:
    penalty = second_task().penalty(batch_size=BATCH)
    assert_near(penalty, 9.71107867951)
    assert_near(penalty, (38.775 + 0.1 * math.log(2)) / BATCH)


@pytest.mark.parametrize("closed_form", [False, True], ids=["through-the-loss", "in-place"])
def test_the_gradients(closed_form: bool) -> None:
    method = second_task(closed_form=closed_form)
    if closed_form:
        method.adjust_gradients(batch_size=BATCH)
    else:
        method.penalty(batch_size=BATCH).backward()
    slope = (1 - math.exp(-0.5)) / BATCH
    expected = {
        "0.weight": [[8 / 4, 0.0]],
        "0.bias": [-8 / 4],
        "2.weight": [[-17 / 4]],
        "2.bias": [1 / 4],
        "0.rho": [0.45 * slope],
        "2.rho": [-0.15 * slope],
    }
    gradients = {name: p.grad for name, p in method.model.named_parameters()}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert gradient is not None
        assert_near(gradient, expected[name])


@pytest.mark.parametrize(
    ("settings", "total"),
    [
        ({}, EQUATION_4 + EQUATION_5 + TERM_B + EQUATION_6),
        ({"freeze": False}, EQUATION_4 + TERM_B + EQUATION_6),
        ({"inflate": False}, EQUATION_4 + EQUATION_5 + TERM_B),
        # h -> o is then held by o alone: 1/2 (1*-2)^2 = 2 in place of 8
        ({"upper_freeze": False}, EQUATION_4 - 6 + EQUATION_5 + TERM_B + EQUATION_6),
    ],
    ids=["all", "without-5", "without-6", "without-upper-freeze"],
)
def test_the_ablations(settings: dict[str, bool], total: float) -> None:
    assert_near(second_task(**settings).penalty(batch_size=BATCH), total / BATCH)


def test_the_first_task() -> None:
    """All strengths are 1, eq. (5) is off, alpha = 1/4 stands before eq. (4). Every weight and bias
    moves by 2 from where it started: 1/4 * 1/2 * 5 * 2^2 = 2.5. Sigmas stay at 1/2:
    1/20 * 2 * (1 - log 1 + 1/4 - log 1/4) = 0.125 + 0.2 log 2."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    method = paper_ucl(net, torch.zeros(1, 2).double(), beta=BETA, sigma=0.5, alpha=0.25)
    with torch.no_grad():
        for name, parameter in method.model.named_parameters():
            if "rho" not in name:
                parameter.add_(2.0)
    assert_near(method.penalty(batch_size=BATCH), (2.625 + 0.2 * math.log(2)) / BATCH)


def test_right_after_a_task_terms_one_and_two_are_zero() -> None:
    """What is left is 1/20 [ 2 * (1 - log 1) + 2 * (1/4 - log 1/4) ], and no pull on any weight."""
    method = second_task()
    method.end_task()
    penalty = method.penalty(batch_size=1)
    assert_near(penalty, 0.05 * (2 + 2 * (0.25 + math.log(4))))
    penalty.backward()
    for name, parameter in method.model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.any() == ("rho" in name)
