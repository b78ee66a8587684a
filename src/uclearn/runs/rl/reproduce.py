"""The paper's experiments of reinforcement learning, and the stages of their reproduction."""

from __future__ import annotations

import math
from typing import Any

from uclearn.errors import SettingError, no_such
from uclearn.runs.rl.config import RLConfig
from uclearn.runs.rl.presets import resolve_rl
from uclearn.runs.study import Curve, Study

SEEDS = 1
"""The paper's figures show no spread and name no number of seeds."""

_FEWER = {"plan.steps_per_task": 500_000}
"""A tenth of the paper's."""


def _compared(name: str, common: dict[str, Any], seeds: int) -> tuple[Curve, ...]:
    return (
        Curve(name, "ucl", {**common, "ucl.beta": 5e-6}, seeds),
        Curve(name, "ucl", {**common, "ucl.beta": 5e-5}, seeds),
        Curve(name, "ewc", common, seeds),
        Curve(name, "finetuning", common, seeds),
    )


RL_STUDIES: dict[str, Study] = {
    "figure-8": Study(
        "Eight locomotion tasks: cumulative normalised reward, and each task's (figure 9)",
        _compared("paper", {}, SEEDS),
    ),
    "supplement-5": Study(
        "The same with initial sigma 0.001 (supplement, figures 5 and 6)",
        tuple(
            Curve("paper", "ucl", {"ucl.sigma": 0.001, "ucl.beta": beta}, SEEDS)
            for beta in (5e-6, 5e-5)
        ),
    ),
    "rl-four": Study(
        "Four of the tasks at a tenth of the steps",
        (
            *_compared("paper-4", _FEWER, 3),
            Curve("paper-4", "ucl", {**_FEWER, "ucl.beta": 5e-6, "ucl.sigma": 0.001}, 3),
        ),
        "500,000 steps per task instead of 5,000,000.",
    ),
    "rl-eight": Study(
        "The whole sequence at a tenth of the steps",
        _compared("paper", _FEWER, 1),
        "500,000 steps per task instead of 5,000,000.",
    ),
}
"""By name."""


def rl_study(name: str) -> Study:
    """The figure or stage called `name`."""
    if name not in RL_STUDIES:
        raise SettingError(no_such("figure or stage", name, RL_STUDIES))
    return RL_STUDIES[name]


def rl_study_configs(
    name: str, *, scale: float | None = None, seeds: int | None = None
) -> list[RLConfig]:
    """All runs of a figure, its seeds or the share of them that `scale` leaves.

    >>> len(rl_study_configs("figure-8")), len(rl_study_configs("rl-four"))
    (4, 15)
    """
    found = []
    for curve in rl_study(name).curves:
        count = seeds or max(1, math.ceil((curve.seeds or SEEDS) * (scale or 1.0)))
        overrides = dict(curve.overrides)
        if scale is not None and (steps := overrides.get("plan.steps_per_task")) is not None:
            overrides["plan.steps_per_task"] = max(8192, round(steps * scale))
        found += [
            resolve_rl(curve.benchmark, curve.method, seed=seed, scale=scale, overrides=overrides)
            for seed in range(count)
        ]
    return found
