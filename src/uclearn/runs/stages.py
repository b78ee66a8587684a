"""The reproduction in stages that a computer without an accelerator gets through.

The paper's own experiments, at its own length, are the figures in `reproduce`. A stage asks one
question of many methods with a budget of epochs that is the same for all, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uclearn.runs.ablate import ABLATIONS
from uclearn.runs.published import adaptive
from uclearn.runs.study import Curve, Study

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


def _ablations(name: str, epochs: int, seeds: int) -> Iterable[Curve]:
    for switches in ABLATIONS.values():
        yield Curve(name, "ucl", {"plan.epochs": epochs, **switches}, seeds)


def _networks(name: str, epochs: int, seeds: int, data: dict[str, Any]) -> Iterable[Curve]:
    for method in ("ucl", "ewc", "si", "finetuning"):
        yield Curve(name, method, {"plan.epochs": epochs, **data}, seeds)


STAGES: dict[str, Study] = {
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
            *_ablations("permuted-mnist", epochs=5, seeds=5),
            *_ablations("split-cifar100", epochs=10, seeds=1),
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
