"""What is run to do the paper's experiments again: the figures at its own length, and stages of
them, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from uclearn.choices import no_such
from uclearn.errors import SettingError
from uclearn.paper.curves import Curve, Study, ablations
from uclearn.paper.settings import TABLE, adaptive
from uclearn.paper.stages import PERMUTED, SPLIT, STAGES

Config = TypeVar("Config")

SEEDS_MLP, SEEDS_CNN, SEEDS_RL = 5, 8, 1
"""As in the paper, whose figures of reinforcement learning show no spread and name no number."""


_MLP_METHODS = ("ucl", "ewc", "si", "vcl", "vcl+coreset", "hat")
_CNN_METHODS = ("ucl", "ewc", "si")


def _seeds(benchmark: str) -> int:
    return SEEDS_MLP if TABLE[benchmark].hidden else SEEDS_CNN


def _methods(benchmarks: Sequence[str], methods: Sequence[str]) -> tuple[Curve, ...]:
    return tuple(Curve(name, method, {}, _seeds(name)) for name in benchmarks for method in methods)


def _ablations(name: str, seeds: int) -> tuple[Curve, ...]:
    return tuple(Curve(name, "ucl", switches, seeds) for switches in ablations())


def _initialisations(names: Sequence[str]) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, "ucl", overrides, _seeds(name))
        for name in names
        for overrides in ({}, adaptive(name))
    )


_SMALL = "On notMNIST small; the paper has notMNIST large."
STUDIES: dict[str, Study] = {
    "figure-3": Study(
        "Permuted and Row Permuted MNIST, average accuracy",
        _methods(PERMUTED, _MLP_METHODS),
    ),
    "figure-4": Study(
        "Histograms of standard deviations on Permuted MNIST",
        _methods(("permuted-mnist",), ("ucl",)),
    ),
    "figure-5": Study("Ablation on Permuted MNIST", _ablations("permuted-mnist", SEEDS_MLP)),
    "figure-6": Study(
        "Split MNIST and Split notMNIST",
        _methods(SPLIT, _MLP_METHODS),
        _SMALL,
    ),
    "figure-7": Study(
        "Split CIFAR-100, Split CIFAR-10/100 and Omniglot",
        _methods(("split-cifar100", "split-cifar10-100", "omniglot"), _CNN_METHODS),
    ),
    "supplement-1": Study(
        "Constant and adaptive initialisation, Permuted and Row Permuted MNIST",
        _initialisations(PERMUTED),
    ),
    "supplement-2": Study(
        "Constant and adaptive initialisation, Split MNIST and Split notMNIST",
        _initialisations(SPLIT),
        _SMALL,
    ),
    "supplement-3": Study(
        "Ablation on Split CIFAR-10/100", _ablations("split-cifar10-100", SEEDS_CNN)
    ),
    **STAGES,
}
"""By the name of the figure or stage. The paper's Table 1 needs no run: see `params`."""

_STEPS = "plan.steps_per_task"
_FEWER = {_STEPS: 500_000}
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
        _compared("paper", {}, SEEDS_RL),
    ),
    "supplement-5": Study(
        "The same with initial sigma 0.001 (supplement, figures 5 and 6)",
        tuple(
            Curve("paper", "ucl", {"ucl.sigma": 0.001, "ucl.beta": beta}, SEEDS_RL)
            for beta in (5e-6, 5e-5)
        ),
    ),
    "rl-four": Study(
        "Four of the tasks at a tenth of the steps",
        (
            Curve("paper-4", "ucl", _FEWER, 3, "default"),
            *_compared("paper-4", _FEWER, 3),
            Curve("paper-4", "ucl", {**_FEWER, "ucl.beta": 5e-6, "ucl.sigma": 0.001}, 3),
        ),
        "500,000 steps per task instead of 5,000,000.",
    ),
    "rl-eight": Study(
        "The whole sequence at a tenth of the steps",
        (
            Curve("paper", "ucl", _FEWER, 3, "default"),
            Curve("paper", "finetuning", _FEWER, 3),
            Curve("paper", "ewc", _FEWER, 3),
            Curve("paper", "ucl", _FEWER, 1),
        ),
        "500,000 steps per task instead of 5,000,000; UCL by rule, and once with the paper's "
        "settings.",
    ),
}
"""The same for reinforcement learning."""


def study(name: str) -> Study:
    """The figure or stage of supervised learning that is called `name`."""
    return _named(name, STUDIES, [*STUDIES, "table-1"])


def rl_study(name: str) -> Study:
    """The figure or stage of reinforcement learning that is called `name`."""
    return _named(name, RL_STUDIES, RL_STUDIES)


def _named(name: str, studies: dict[str, Study], known: Iterable[str]) -> Study:
    if name not in studies:
        raise SettingError(no_such("figure or stage", name, known))
    return studies[name]


def study_configs(
    study: Study,
    resolve: Callable[..., Config],
    *,
    scale: float | None = None,
    seeds: int | None = None,
    preset: str = "paper",
) -> list[Config]:
    """All runs of a figure or stage, its seeds or the share of them that `scale` leaves.

    Args:
        study: what is run.
        resolve: makes the configuration of one run, of supervised or of reinforcement learning.
        scale: share of the epochs or steps, and of the seeds. None: all of them.
        seeds: so many instead.
        preset: of curves that name none.
    """
    counts = [seeds or max(1, math.ceil(curve.seeds * (scale or 1.0))) for curve in study.curves]
    return [
        resolve(
            curve.benchmark,
            curve.method,
            preset=curve.preset or preset,
            seed=seed,
            scale=scale,
            overrides=_scaled(curve.overrides, scale),
        )
        for seed in range(max(counts))  # so that what is stopped half-way has all methods
        for curve, count in zip(study.curves, counts, strict=True)
        if seed < count
    ]


def _scaled(overrides: dict[str, Any], scale: float | None) -> dict[str, Any]:
    """With the share of the steps that `scale` leaves, but at least those of one rollout."""
    steps = overrides.get(_STEPS)
    if scale is None or steps is None:
        return overrides
    return {**overrides, _STEPS: max(8192, round(steps * scale))}
