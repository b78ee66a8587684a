"""What the paper shows, as lists of runs: each figure of supervised learning, by name; and the
stages of its reproduction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uclearn.errors import SettingError, no_such
from uclearn.runs.ablate import ABLATIONS
from uclearn.runs.config import RunConfig
from uclearn.runs.overrides import resolve
from uclearn.runs.published import TABLE, adaptive
from uclearn.runs.stages import STAGES
from uclearn.runs.study import Curve, Study

SEEDS_MLP, SEEDS_CNN = 5, 8
"""As in the paper."""

_MLP_METHODS = ("ucl", "ewc", "si", "vcl", "vcl+coreset", "hat")
_CNN_METHODS = ("ucl", "ewc", "si")


def _methods(benchmarks: Sequence[str], methods: Sequence[str]) -> tuple[Curve, ...]:
    return tuple(Curve(name, method, {}) for name in benchmarks for method in methods)


def _ablations(name: str) -> tuple[Curve, ...]:
    return tuple(Curve(name, "ucl", overrides) for overrides in ABLATIONS.values())


def _initialisations(names: Sequence[str]) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, "ucl", overrides) for name in names for overrides in ({}, adaptive(name))
    )


_SMALL = "On notMNIST small; the paper has notMNIST large."
STUDIES: dict[str, Study] = {
    "figure-3": Study(
        "Permuted and Row Permuted MNIST, average accuracy",
        _methods(("permuted-mnist", "row-permuted-mnist"), _MLP_METHODS),
    ),
    "figure-4": Study(
        "Histograms of standard deviations on Permuted MNIST",
        _methods(("permuted-mnist",), ("ucl",)),
    ),
    "figure-5": Study("Ablation on Permuted MNIST", _ablations("permuted-mnist")),
    "figure-6": Study(
        "Split MNIST and Split notMNIST",
        _methods(("split-mnist", "split-notmnist"), _MLP_METHODS),
        _SMALL,
    ),
    "figure-7": Study(
        "Split CIFAR-100, Split CIFAR-10/100 and Omniglot",
        _methods(("split-cifar100", "split-cifar10-100", "omniglot"), _CNN_METHODS),
    ),
    "supplement-1": Study(
        "Constant and adaptive initialisation, Permuted and Row Permuted MNIST",
        _initialisations(("permuted-mnist", "row-permuted-mnist")),
    ),
    "supplement-2": Study(
        "Constant and adaptive initialisation, Split MNIST and Split notMNIST",
        _initialisations(("split-mnist", "split-notmnist")),
        _SMALL,
    ),
    "supplement-3": Study("Ablation on Split CIFAR-10/100", _ablations("split-cifar10-100")),
    **STAGES,
}
"""By the name of the figure or stage. The paper's Table 1 needs no run: see `params`."""


def study(name: str) -> Study:
    """The figure or stage called `name`."""
    if name not in STUDIES:
        raise SettingError(no_such("figure or stage", name, [*STUDIES, "table-1"]))
    return STUDIES[name]


def study_configs(
    name: str, *, scale: float | None = None, seeds: int | None = None, preset: str = "paper"
) -> list[RunConfig]:
    """All runs of a figure, its seeds or the share of them that `scale` leaves.

    >>> len(study_configs("figure-5")), len(study_configs("figure-5", scale=0.05))
    (20, 4)
    """
    configs = []
    for curve in study(name).curves:
        count = curve.seeds or (SEEDS_MLP if TABLE[curve.benchmark].hidden else SEEDS_CNN)
        for seed in range(seeds or max(1, math.ceil(count * (scale or 1.0)))):
            configs.append(
                resolve(
                    curve.benchmark,
                    curve.method,
                    preset=curve.preset or preset,
                    seed=seed,
                    scale=scale,
                    overrides=curve.overrides,
                )
            )
    return configs
