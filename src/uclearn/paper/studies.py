"""What is run to do the paper's experiments again: the figures at its own length, and stages that a
computer without an accelerator gets through.

A stage asks one question of many methods with a budget of epochs that is the same for all, and says
so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from uclearn.choices import no_such
from uclearn.errors import SettingError
from uclearn.paper.settings import TABLE, adaptive

Config = TypeVar("Config")

ABLATIONS = {
    "upper_freeze": "without upper freeze",
    "freeze": "without eq. (5)",
    "inflate": "without eq. (6)",
}
"""UCL's switches, all on in the method itself: the paper's words for what lacks one (figure 5 and
supplement, figure 3)."""


def ablations() -> list[dict[str, Any]]:
    """What is set for the whole UCL, and for UCL without each of its ingredients.

    >>> ablations()[:2]
    [{}, {'ucl.upper_freeze': False}]
    """
    return [{}, *({f"ucl.{switch}": False} for switch in ABLATIONS)]


class Curve(NamedTuple):
    """One line of a figure: a method on a benchmark, with settings of its own."""

    benchmark: str
    method: str
    overrides: dict[str, Any]
    seeds: int
    preset: str | None = None
    """None: that of the study's command."""


class Study(NamedTuple):
    """A figure of the paper, or a stage of its reproduction."""

    title: str
    curves: tuple[Curve, ...]
    note: str = ""


SEEDS_MLP, SEEDS_CNN, SEEDS_RL = 5, 8, 1
"""As in the paper, whose figures of reinforcement learning show no spread and name no number."""


_PERMUTED = ("permuted-mnist", "row-permuted-mnist")
_SPLIT = ("split-mnist", "split-notmnist")
_RIVALS = ("ewc", "si", "finetuning", "mas", "rwalk", "lwf", "hat", "finetuning+replay", "joint")
_LOCAL = {"ucl.sampling": "local"}
_OMNIGLOT = {"data.copies": 2, "data.split_after_augmentation": False}


def _variants(name: str) -> Iterable[dict[str, Any]]:
    """UCL with both ways to draw, and with the constant initial sigma (the preset's) and the
    adaptive one."""
    for start in ({}, adaptive(name)):
        yield start
        yield {**start, **_LOCAL}


def _broad(name: str, epochs: int, seeds: int) -> Iterable[Curve]:
    budget = {"plan.epochs": epochs}
    for variant in _variants(name):
        yield Curve(name, "ucl", {**budget, **variant}, seeds)
    for method in _RIVALS:
        yield Curve(name, method, budget, seeds)
    for method in ("vcl", "vcl+coreset"):
        yield Curve(name, method, {**budget, "vcl.start_epochs": epochs}, seeds)


def _deep(name: str, epochs: int) -> Iterable[Curve]:
    budget = {"plan.epochs": epochs}
    yield Curve(name, "ucl", budget, 3, "best")
    for method in ("ucl", "ewc", "si"):
        yield Curve(name, method, budget, 3)


def _ablations(name: str, seeds: int, budget: dict[str, Any]) -> tuple[Curve, ...]:
    return tuple(Curve(name, "ucl", {**budget, **switches}, seeds) for switches in ablations())


def _networks(name: str, epochs: int, seeds: int, data: dict[str, Any]) -> Iterable[Curve]:
    for method in ("ucl", "ewc", "si", "finetuning"):
        yield Curve(name, method, {"plan.epochs": epochs, **data}, seeds)


def _untuned(name: str, seeds: int, epochs: int | None = None) -> Iterable[Curve]:
    budget = {} if epochs is None else {"plan.epochs": epochs}
    strongest = "hat" if "permuted" in name else "lwf"  # of the rivals on the small sets
    for method in ("ucl", "ewc", strongest, "finetuning"):
        yield Curve(name, method, budget, seeds, "default")


STAGES: dict[str, Study] = {
    "untuned": Study(
        "Nothing tuned: every setting by rule",
        (
            *_untuned("permuted-digits", 10),
            *_untuned("split-digits", 10),
            *_untuned("split-mnist", 3, 5),
            *_untuned("split-notmnist", 5, 20),
            *_untuned("permuted-mnist", 3, 10),
            *_untuned("row-permuted-mnist", 3, 20),
            *_untuned("split-cifar100", 3, 10),
        ),
        "The preset `default` everywhere; the same rules for all.",
    ),
    "broad": Study(
        "Every method, a small and equal budget of epochs",
        (
            *(curve for name in _PERMUTED for curve in _broad(name, epochs=5, seeds=3)),
            *(curve for name in _SPLIT for curve in _broad(name, epochs=20, seeds=5)),
        ),
        "5 epochs per task on the permuted sets, 20 on the split sets.",
    ),
    "deep": Study(
        "UCL, EWC and SI with more epochs",
        (
            *(curve for name in _PERMUTED for curve in _deep(name, epochs=20)),
            *(curve for name in _SPLIT for curve in _deep(name, epochs=100)),
        ),
        "20 epochs per task on the permuted sets, the paper's 100 on the split sets.",
    ),
    "ablations": Study(
        "UCL without one of its terms",
        (
            *_ablations("permuted-mnist", 5, {"plan.epochs": 5}),
            *_ablations("split-cifar100", 1, {"plan.epochs": 10}),
        ),
        "5 epochs per task on Permuted MNIST, 10 on Split CIFAR-100, where the paper has Split "
        "CIFAR-10/100.",
    ),
    "convolutions": Study(
        "Convolutional networks",
        (
            *_networks("split-cifar100", epochs=10, seeds=3, data={}),
            *_networks("omniglot", epochs=5, seeds=1, data=_OMNIGLOT),
        ),
        "10 epochs per task on CIFAR-100; 5 on Omniglot, where each drawing has 2 copies instead "
        "of 20, and those tested on have none among the training data.",
    ),
    "full-length": Study(
        "UCL with the paper's settings and epochs",
        (Curve("permuted-mnist", "ucl", {}, 1), Curve("split-cifar100", "ucl", {}, 1)),
    ),
}
"""By name. Each is complete in itself."""

_MLP_METHODS = ("ucl", "ewc", "si", "vcl", "vcl+coreset", "hat")
_CNN_METHODS = ("ucl", "ewc", "si")


def _seeds(benchmark: str) -> int:
    return SEEDS_MLP if TABLE[benchmark].hidden else SEEDS_CNN


def _methods(benchmarks: Sequence[str], methods: Sequence[str]) -> tuple[Curve, ...]:
    return tuple(Curve(name, method, {}, _seeds(name)) for name in benchmarks for method in methods)


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
        _methods(_PERMUTED, _MLP_METHODS),
    ),
    "figure-4": Study(
        "Histograms of standard deviations on Permuted MNIST",
        _methods(("permuted-mnist",), ("ucl",)),
    ),
    "figure-5": Study("Ablation on Permuted MNIST", _ablations("permuted-mnist", SEEDS_MLP, {})),
    "figure-6": Study(
        "Split MNIST and Split notMNIST",
        _methods(_SPLIT, _MLP_METHODS),
        _SMALL,
    ),
    "figure-7": Study(
        "Split CIFAR-100, Split CIFAR-10/100 and Omniglot",
        _methods(("split-cifar100", "split-cifar10-100", "omniglot"), _CNN_METHODS),
    ),
    "supplement-1": Study(
        "Constant and adaptive initialisation, Permuted and Row Permuted MNIST",
        _initialisations(_PERMUTED),
    ),
    "supplement-2": Study(
        "Constant and adaptive initialisation, Split MNIST and Split notMNIST",
        _initialisations(_SPLIT),
        _SMALL,
    ),
    "supplement-3": Study(
        "Ablation on Split CIFAR-10/100", _ablations("split-cifar10-100", SEEDS_CNN, {})
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
    return [
        resolve(
            curve.benchmark,
            curve.method,
            preset=curve.preset or preset,
            seed=seed,
            scale=scale,
            overrides=_scaled(curve.overrides, scale),
        )
        for curve in study.curves
        for seed in range(seeds or max(1, math.ceil(curve.seeds * (scale or 1.0))))
    ]


def _scaled(overrides: dict[str, Any], scale: float | None) -> dict[str, Any]:
    """With the share of the steps that `scale` leaves, but at least those of one rollout."""
    steps = overrides.get(_STEPS)
    if scale is None or steps is None:
        return overrides
    return {**overrides, _STEPS: max(8192, round(steps * scale))}
