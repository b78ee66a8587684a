"""Stages of the reproduction that a computer without an accelerator gets through.

A stage asks one question of many methods with a budget of epochs that is the same for all, and says
so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uclearn.paper.curves import Curve, Study, ablations
from uclearn.paper.settings import adaptive

PERMUTED = ("permuted-mnist", "row-permuted-mnist")
SPLIT = ("split-mnist", "split-notmnist")
_RIVALS = ("ewc", "si", "finetuning", "mas", "rwalk", "lwf", "hat", "finetuning+replay", "joint")
_LOCAL = {"ucl.sampling": "local"}
_CHEAP_VCL = {"vcl.sampling": "local", "vcl.samples": 1, "vcl.prediction_samples": 20}
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


def _ablations(name: str, seeds: int, budget: dict[str, Any]) -> Iterable[Curve]:
    for switches in ablations():
        yield Curve(name, "ucl", {**budget, **switches}, seeds)


def _networks(
    name: str, epochs: int, seeds: int, data: dict[str, Any], preset: str | None = None
) -> Iterable[Curve]:
    for method in ("ucl", "ewc", "si", "finetuning"):
        yield Curve(name, method, {"plan.epochs": epochs, **data}, seeds, preset)


_AT_ONCE = {"joint.once": True}
"""After each task anew, joint training would cost more than all other methods together."""


def _untuned(
    name: str, rivals: Iterable[str], seeds: int, epochs: int | None = None
) -> Iterable[Curve]:
    budget = {} if epochs is None else {"plan.epochs": epochs}
    for method in ("ucl", "ewc", "si", *rivals, "finetuning"):
        yield Curve(name, method, budget, seeds, "default")
    yield Curve(name, "joint", {**budget, **_AT_ONCE}, seeds, "default")


_FAST = {"plan.epochs": 20, "plan.schedule": "cosine", "plan.patience": None}
"""The schedule of the preset `default`."""
_IN_FEWER_STEPS = {**_FAST, "ucl.lr_sigma": "auto"}
"""For the paper's UCL: sigma goes as far as it would at the paper's length."""


def _fast(name: str, seeds: int) -> Iterable[Curve]:
    for method in ("ucl", "ewc", "si", "finetuning"):
        yield Curve(name, method, {}, seeds, "default")
    yield Curve(name, "joint", _AT_ONCE, seeds, "default")


def _alphabets(split_after_augmentation: bool) -> Iterable[Curve]:
    chosen = {"plan.epochs": 5, "data.split_after_augmentation": split_after_augmentation}
    for method in ("ucl", "ewc", "si", "finetuning"):
        yield Curve("omniglot", method, chosen, 1, "default")


def _missing(name: str) -> Iterable[Curve]:
    """Of the broad stage; VCL once, with noise per example and fewer draws to judge by."""
    yield from (curve for curve in _broad(name, 5, 3) if not curve.method.startswith("vcl"))
    cheaper = {"plan.epochs": 5, "vcl.start_epochs": 5, **_CHEAP_VCL}
    yield Curve(name, "vcl", cheaper, 1)


def _longer(epochs: int) -> Iterable[Curve]:
    for name in PERMUTED:
        for method in ("ucl", "ewc"):
            for preset in ("default", "best"):
                yield Curve(name, method, {"plan.epochs": epochs}, 3, preset)


STAGES: dict[str, Study] = {
    "cifar10-100": Study(
        "Split CIFAR-10/100, nothing tuned",
        (
            *_fast("split-cifar10-100", 3),
            Curve("split-cifar10-100", "ucl", {}, 1),
        ),
        "20 epochs per task and the preset `default`; UCL also once with the paper's settings and "
        "its own 100 epochs.",
    ),
    "cifar100": Study(
        "Split CIFAR-100, nothing tuned",
        (
            *_fast("split-cifar100", 3),
            Curve("split-cifar100", "ucl", {}, 1),
        ),
        "20 epochs per task and the preset `default`; UCL also once with the paper's settings and "
        "its own 100 epochs.",
    ),
    "cifar100-ablations": Study(
        "Split CIFAR-100: UCL without one of its terms",
        tuple(_ablations("split-cifar100", 2, _IN_FEWER_STEPS)),
        "The paper's settings with 20 epochs instead of 100, and sigma as fast as these need.",
    ),
    "omniglot": Study(
        "Omniglot, both ways to split",
        (*_alphabets(True), *_alphabets(False)),
        "All 20 copies of each drawing, 5 epochs, the preset `default`. The paper splits after "
        "augmentation, so copies of one drawing stand on both sides; the other half of the runs "
        "splits the drawings first.",
    ),
    "permuted": Study(
        "Permuted and Row Permuted MNIST: seeds that the broad stage lacks, and VCL",
        tuple(curve for name in PERMUTED for curve in _missing(name)),
        "5 epochs per task. In the folder of the broad stage only what is missing is made.",
    ),
    "longer": Study(
        "Does more training help?",
        tuple(curve for epochs in (5, 20, 100) for curve in _longer(epochs)),
        "5, 20 and 100 epochs, UCL and EWC, nothing tuned (`default`) and tuned (`best`).",
    ),
    "untuned": Study(
        "Nothing tuned: every setting by rule",
        (
            *_untuned("permuted-digits", ["hat"], 10),
            *_untuned("split-digits", ["lwf", "hat"], 10),
            *_untuned("split-mnist", ["lwf", "hat"], 3, 5),
            *_untuned("split-notmnist", ["lwf", "hat"], 5, 20),
            *_untuned("permuted-mnist", ["hat"], 3, 10),
            *_untuned("row-permuted-mnist", ["hat"], 3, 20),
            *_untuned("split-cifar100", ["lwf"], 3, 10),
            *_networks("omniglot", epochs=5, seeds=1, data=_OMNIGLOT, preset="default"),
        ),
        "The preset `default` everywhere; the same rules for all. Omniglot with 2 copies of each "
        "drawing instead of 20, none of those that are tested on.",
    ),
    "precision": Study(
        "bfloat16 against float32",
        tuple(
            Curve(name, "ucl", {"plan.epochs": epochs, **precision}, seeds, preset)
            for name, epochs, seeds, preset in (
                ("permuted-mnist", 5, 3, "best"),
                ("split-cifar100", 10, 2, "default"),
            )
            for precision in ({}, {"plan.precision": "float32"})
        ),
        "The same runs with products in bfloat16, where the processor has them, and in float32.",
    ),
    "broad": Study(
        "Every method, a small and equal budget of epochs",
        (
            *(curve for name in PERMUTED for curve in _broad(name, epochs=5, seeds=3)),
            *(curve for name in SPLIT for curve in _broad(name, epochs=20, seeds=5)),
        ),
        "5 epochs per task on the permuted sets, 20 on the split sets.",
    ),
    "deep": Study(
        "UCL, EWC and SI with more epochs",
        (
            *(curve for name in PERMUTED for curve in _deep(name, epochs=20)),
            *(curve for name in SPLIT for curve in _deep(name, epochs=100)),
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
