"""What the authors of the paper tried (supplement 5.1.1), as data."""

from __future__ import annotations

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
