"""What UCL can be told, and what it costs by formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.gaussian import GaussianLayer
from uclearn.methods.facts import Cost, Facts, Range, Sizes
from uclearn.methods.parts.wrapper import check_setting
from uclearn.methods.ucl.grow import grow
from uclearn.methods.ucl.memory import Hold
from uclearn.methods.ucl.rules import Auto, sigma_by_rule
from uclearn.methods.ucl.seen import numbers


def _cost(n: Sizes) -> Cost:
    return Cost(2 * (n.shared + n.nodes) + n.heads, n.shared + n.nodes + n.head)


def _cost_of_outputs(n: Sizes) -> Cost:
    plain = _cost(n)
    seen = sum(numbers(*layer) for layer in n.layers) + n.features**2
    return plain._replace(kept=plain.kept + seen)


FACTS = Facts(
    works_in_rl=True,
    search={
        "beta": Range(1e-5, 0.1, log=True),
        "sigma": Range(0.01, 0.3, log=True),
        "ratio": Range(0.05, 0.9),
        "alpha": Range(0.001, 10.0, log=True),
        "lr_sigma": Range(0.0003, 0.1, log=True),
    },
    tried={"beta": (0.0001, 0.001, 0.01, 0.1), "sigma": (0.02, 0.06, 0.18)},
    # the paper's count has an uncertainty for each bias, too
    variants={
        "noisy_bias": {"noisy_bias": True},
        "hold=outputs": {"hold": "outputs", "heads_follow": True},
    },
    cost=_cost,
    variant_costs={"hold=outputs": _cost_of_outputs},
    grow=grow,
)


def start(
    sigma: float | Auto | None, ratio: float | None
) -> float | Callable[[GaussianLayer], float] | None:
    """Sigma by hand, by rule, or left to `ratio`."""
    if sigma != "auto":
        return sigma
    return sigma_by_rule if ratio is None else None


def check_settings(
    hold: Hold, beta: float | Auto, alpha: float, lr_sigma: float | Auto | None
) -> None:
    """Refuse what makes no sense."""
    check_choice("hold", hold, get_args(Hold))
    moves = "It weighs the term that moves the uncertainties; the paper uses 0.00001 to 0.03."
    if beta != "auto":
        check_setting("beta", beta, moves)
    pulls = "It weighs the pull towards the initial means while the first task is learned"
    check_setting("alpha", alpha, f"{pulls}; the paper uses 0.01 to 5.")
    if lr_sigma is not None and lr_sigma != "auto" and not lr_sigma > 0:
        raise SettingError(
            f"`lr_sigma` must be positive, got {lr_sigma}. It is the learning rate of the "
            "uncertainties; None takes that of the means, 'auto' suits the length of tasks."
        )
