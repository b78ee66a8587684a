"""What the paper reports, each with where it stands and what it was measured on: average accuracy
after the last task, as a fraction; parameter counts of its Table 1, in thousands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_CONSTANT = "initial σ 0.06 in all layers"
_ADAPTIVE = "initial σ adapted to the layer’s size"


@dataclass(frozen=True)
class Published:
    """One number of the paper."""

    accuracy: float | None
    """None: shown in a figure only, and then `words` say what can be said."""
    source: str
    tasks: int
    epochs: int = 100
    words: str = ""
    """What belongs to the number: how it was made, how exactly it is known."""
    condition: str = ""
    """The mark that a run has to carry to be comparable with it."""


@dataclass(frozen=True)
class _Benchmark:
    """How the paper ran a benchmark, and what it found by method."""

    tasks: int
    source: str
    accuracy: Mapping[str, float | None]
    words: Mapping[str, str]
    vcl_epochs: int = 100
    remark: str = ""
    condition: str = ""


_LOWER = "lower than UCL in the figure, no number given"


def _by_method(*accuracies: float | None) -> dict[str, float | None]:
    """Accuracies in the order of the columns below; the paper's convolutional networks were not
    trained by the last three methods."""
    columns = ("ucl", "ewc", "si", "vcl", "vcl+coreset", "hat")
    return dict(zip(columns, accuracies, strict=False))


_BENCHMARKS: dict[str, _Benchmark] = {
    "permuted-mnist": _Benchmark(
        tasks=10,
        source="main text, Figure 3 (left)",
        accuracy=_by_method(0.945, 0.918, 0.911, 0.913, 0.933, None),
        words={
            "ucl": _CONSTANT,
            "vcl+coreset": "VCL plus “an improvement of 2 %”",
            "hat": "like UCL for 5 tasks, falls after task 7; no number given",
        },
        vcl_epochs=200,
    ),
    "row-permuted-mnist": _Benchmark(
        tasks=10,
        source="main text, Figure 3 (right)",
        accuracy=_by_method(0.865, None, None, None, None, None),
        words={"ucl": _CONSTANT}
        | dict.fromkeys(("ewc", "si", "vcl", "vcl+coreset", "hat"), _LOWER),
        vcl_epochs=200,
    ),
    "split-mnist": _Benchmark(
        tasks=5,
        source="main text, Figure 6 (top)",
        accuracy=_by_method(0.997, None, 0.990, None, 0.987, 0.997),
        words={"ucl": _CONSTANT, "ewc": _LOWER, "vcl": _LOWER},
        vcl_epochs=120,
    ),
    "split-notmnist": _Benchmark(
        tasks=5,
        source="main text, Figure 6 (bottom)",
        accuracy=_by_method(0.957, 0.84, 0.84, 0.901, 0.937, 0.952),
        words={"ucl": _CONSTANT, "ewc": "“around 84 %”", "si": "“around 84 %”"},
        vcl_epochs=120,
        remark="measured on notMNIST large, not on the small set used here",
    ),
    "split-cifar100": _Benchmark(
        tasks=10,
        source="main text, Figure 7 (a)",
        accuracy=_by_method(0.634, 0.605, 0.600),
        words={"ucl": _ADAPTIVE},
    ),
    "split-cifar10-100": _Benchmark(
        tasks=11,
        source="main text, Figure 7 (b)",
        accuracy=_by_method(0.732, None, None),
        words={"ucl": _ADAPTIVE, "ewc": _LOWER, "si": _LOWER},
    ),
    "omniglot": _Benchmark(
        tasks=50,
        source="main text, Figure 7 (c)",
        accuracy=_by_method(0.839, 0.681, 0.742),
        words={"ucl": _ADAPTIVE},
        remark="split after augmentation: copies of one drawing stand in training and test",
        condition="split after augmentation",
    ),
}
_BENCHMARKS["split-notmnist-large"] = replace(_BENCHMARKS["split-notmnist"], remark="")


def _counts(*thousands: int) -> dict[str, int]:
    """A row of Table 1; VCL and HAT have none for convolutional networks."""
    return dict(zip(("finetuning", "ewc", "si", "ucl", "hat", "vcl"), thousands, strict=False))


PARAMETERS: dict[str, dict[str, int]] = {
    "permuted-mnist": _counts(478, 1435, 1435, 960, 486, 1914),
    "split-mnist": _counts(270, 808, 808, 538, 272, 1077),
    "split-notmnist": _counts(187, 559, 559, 375, 190, 749),
    "split-cifar10-100": _counts(839, 2467, 2467, 1655),
    "omniglot": _counts(1773, 1995, 1995, 1884),
}
"""Table 1, in thousands; its "Vanilla" is fine-tuning, which keeps the plain network."""


def published(benchmark: str, method: str) -> Published | None:
    """What the paper reports for `method` on `benchmark`; None if it does not.

    >>> published("permuted-mnist", "ucl").accuracy
    0.945
    """
    entry = _BENCHMARKS.get(benchmark)
    if entry is None or method not in entry.accuracy:
        return None
    remarks = [entry.words.get(method, ""), entry.remark]
    return Published(
        accuracy=entry.accuracy[method],
        source=entry.source,
        tasks=entry.tasks,
        epochs=entry.vcl_epochs if method.startswith("vcl") else 100,
        words="; ".join(remark for remark in remarks if remark),
        condition=entry.condition,
    )
