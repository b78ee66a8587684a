"""Where a run's values come from: settings for every benchmark and method, with their sources.

`paper` follows the paper to the letter, and its authors' program where the paper is silent. `best`
starts from there and takes what we found to be better. What neither the paper nor the program has
(the digits; MAS, RWalk, LwF, joint training, replay) is ours in both, and says so.
"""

from __future__ import annotations

import copy
from typing import Any, get_args

from uclearn.errors import SettingError
from uclearn.methods.registry import parts
from uclearn.runs import digits, published
from uclearn.runs.config import Preset
from uclearn.runs.parts import DataSettings, NetworkSettings, part_settings, plan_settings
from uclearn.runs.published import OURS, TABLE, Values, of
from uclearn.tasks.benchmarks import benchmark

PRESETS: tuple[str, ...] = get_args(Preset)

_PUBLISHED = {
    "ucl": published.ucl,
    "ewc": published.ewc,
    "si": published.si,
    "hat": published.hat,
    "vcl": published.vcl,
    "coreset": published.coreset,
}

BEST: dict[str, Values] = {
    "ucl": of("ucl", f"{OURS}: cheaper than one draw of the weights", sampling="local"),
}
"""By part: what `best` has instead of the paper's values, on all benchmarks of the paper."""

_GRIDS = f"{OURS}: best on validation data of the first 3 tasks, results/grids"

TUNED: dict[tuple[str, str], Values] = {
    ("permuted-mnist", "ucl"): of("ucl", _GRIDS, beta=0.01, sigma=None, ratio=0.25, means="draw"),
    ("split-notmnist", "ucl"): of(
        "ucl", _GRIDS, beta=0.0001, lr_sigma=0.03, sigma=None, ratio=0.5, means="draw"
    ),
    ("split-notmnist", "ewc"): of("ewc", _GRIDS, strength=4_000_000.0),
    ("split-notmnist", "si"): of("si", _GRIDS, strength=3.0),
}
"""By benchmark and part: what `best` has beyond that, where it was looked for."""


def preset(name: str, method: str, which: str = "best") -> Values:
    """What a preset says, by dotted key, each value with its source.

    Args:
        name: of the benchmark.
        method: such as `ucl` or `vcl+coreset`.
        which: `best` or `paper`.

    >>> preset("permuted-mnist", "ucl", "paper")["ucl.beta"]
    (0.03, 'paper, supplement 5.1.1')
    """
    if which not in PRESETS:
        raise SettingError(f"`preset` must be one of {', '.join(PRESETS)}, got {which!r}.")
    benchmark(name)
    own, *wrappers = parts(method)
    if name not in TABLE:
        return digits.preset(name, own, wrappers)
    values = published.plan(name, own) | published.network(name, own)
    for part in (own, *wrappers):
        if part in _PUBLISHED:
            values |= _PUBLISHED[part](name)
        if which == "best":
            values |= BEST.get(part, {}) | TUNED.get((name, part), {})
    if which == "paper" and name == "omniglot":
        values |= of("data", published.PROGRAM, split_after_augmentation=True)
    return values


def preset_document(name: str, method: str, which: str = "best") -> dict[str, Any]:
    """A whole configuration but the seed, as plain data: the preset, and defaults elsewhere."""
    document: dict[str, Any] = {
        "benchmark": name,
        "method": method,
        "preset": which,
        "tasks": None,
        "scale": None,
        "plan": plan_settings()().model_dump(),
        "network": NetworkSettings().model_dump(),
        "settings": {part: part_settings(part)().model_dump() for part in parts(method)},
        "data": DataSettings().model_dump(),
    }
    for key, (value, _) in preset(name, method, which).items():
        group, setting = key.split(".")
        home = document if group in ("plan", "network", "data") else document["settings"]
        home[group][setting] = copy.deepcopy(value)
    return document
