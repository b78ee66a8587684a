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
from uclearn.paper import settings as published
from uclearn.paper.ours import BEST, TUNED, for_digits
from uclearn.paper.settings import TABLE, Values, of
from uclearn.runs.config import Preset
from uclearn.runs.parts import DataSettings, NetworkSettings, part_settings, plan_settings
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
        return for_digits(name, own, wrappers)
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
