"""What the paper prints, as data, each with where it stands. Percentages and counts as printed."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """A number of the paper and where it stands."""

    value: float
    source: str


_FIGURE_3 = "section 4.1, text to figure 3"
_FIGURE_6 = "section 4.1, text to figure 6"
_FIGURE_7 = "section 4.1, text to figure 7"

ACCURACY: dict[tuple[str, str], Printed] = {
    ("permuted-mnist", "ucl"): Printed(94.5, _FIGURE_3),
    ("permuted-mnist", "ewc"): Printed(91.8, _FIGURE_3),
    ("permuted-mnist", "si"): Printed(91.1, _FIGURE_3),
    ("permuted-mnist", "vcl"): Printed(91.3, _FIGURE_3),
    ("permuted-mnist", "vcl+coreset"): Printed(93.3, f"{_FIGURE_3}: 'an improvement of 2%'"),
    ("row-permuted-mnist", "ucl"): Printed(86.5, _FIGURE_3),
    ("split-mnist", "ucl"): Printed(99.7, _FIGURE_6),
    ("split-mnist", "hat"): Printed(99.7, _FIGURE_6),
    ("split-mnist", "si"): Printed(99.0, _FIGURE_6),
    ("split-mnist", "vcl+coreset"): Printed(98.7, _FIGURE_6),
    ("split-notmnist-large", "ucl"): Printed(95.7, _FIGURE_6),
    ("split-notmnist-large", "hat"): Printed(95.2, _FIGURE_6),
    ("split-notmnist-large", "vcl+coreset"): Printed(93.7, _FIGURE_6),
    ("split-notmnist-large", "vcl"): Printed(90.1, _FIGURE_6),
    ("split-notmnist-large", "ewc"): Printed(84.0, f"{_FIGURE_6}: 'around 84%'"),
    ("split-notmnist-large", "si"): Printed(84.0, f"{_FIGURE_6}: 'around 84%'"),
    ("split-cifar100", "ucl"): Printed(63.4, _FIGURE_7),
    ("split-cifar100", "ewc"): Printed(60.5, _FIGURE_7),
    ("split-cifar100", "si"): Printed(60.0, _FIGURE_7),
    ("split-cifar10-100", "ucl"): Printed(73.2, _FIGURE_7),
    ("omniglot", "ucl"): Printed(83.9, _FIGURE_7),
    ("omniglot", "ewc"): Printed(68.1, _FIGURE_7),
    ("omniglot", "si"): Printed(74.2, _FIGURE_7),
}
"""Average accuracy over all tasks after the last, in percent, by benchmark and method."""

OTHER_DATA = {"split-notmnist": "split-notmnist-large"}
"""Benchmarks on other data than the paper's: its number is shown, and that it is not comparable."""

_COUNTED = ("finetuning", "ewc", "si", "hat", "vcl", "ucl")
TABLE_1: dict[str, dict[str, int | None]] = {
    name: dict(zip(_COUNTED, thousands, strict=True))
    for name, thousands in {
        "permuted-mnist": (478, 1435, 1435, 486, 1914, 960),
        "split-mnist": (270, 808, 808, 272, 1077, 538),
        "split-notmnist": (187, 559, 559, 190, 749, 375),
        "split-cifar10-100": (839, 2467, 2467, None, None, 1655),
        "omniglot": (1773, 1995, 1995, None, None, 1884),
    }.items()
}
"""Table 1, thousands of parameters by benchmark and method; its 'Vanilla' is fine-tuning."""

_STRENGTHS_MLP = (40.0, 400.0, 4000.0, 40000.0)
_STRENGTHS_CNN = (
    *(25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0),
    *(2500.0, 5000.0, 7500.0, 10000.0, 25000.0, 50000.0, 75000.0, 100000.0),
)
_C_MLP = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 1.0)
_C_CNN = tuple(n / 100 for n in range(25, 101, 5))
_C_HAT = (0.25, 0.5, 0.75, 1.0)

Grid = dict[str, tuple[float, ...]]
_MLP: dict[str, Grid] = {
    "ucl": {"ucl.beta": (0.0001, 0.001, 0.01, 0.02, 0.03)},
    "ewc": {"ewc.strength": _STRENGTHS_MLP},
    "si": {"si.strength": _C_MLP},
    "hat": {"hat.strength": _C_HAT},
}
_CIFAR: dict[str, Grid] = {
    "ucl": {
        "ucl.beta": (0.0001, 0.0002, 0.001, 0.002),  # the last is printed 0.0002, a misprint
        "ucl.ratio": (0.5, 0.125),
        "ucl.lr_sigma": (0.01, 0.02),
    },
    "ewc": {"ewc.strength": _STRENGTHS_CNN},
    "si": {"si.strength": _C_CNN},
}
_OMNIGLOT: dict[str, Grid] = {
    **_CIFAR,
    "ucl": {
        "ucl.beta": (0.00001, 0.0001, 0.001, 0.01),
        "ucl.ratio": (0.5, 0.125),
        "ucl.lr_sigma": (0.01, 0.02),
    },
}
GRIDS: dict[str, dict[str, Grid]] = {
    "permuted-mnist": _MLP,
    "row-permuted-mnist": _MLP,
    "split-mnist": _MLP,
    "split-notmnist": _MLP,
    "split-notmnist-large": _MLP,
    "split-cifar100": _CIFAR,
    "split-cifar10-100": _CIFAR,
    "omniglot": _OMNIGLOT,
}
"""What the authors tried (supplement 5.1.1), by benchmark and method."""
