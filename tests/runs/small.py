"""Runs that take a blink: few tasks, one epoch, a narrow network, on the digits of the package."""

from __future__ import annotations

from typing import Any

from uclearn.runs.config import RunConfig
from uclearn.runs.overrides import resolve

SMALL: dict[str, Any] = {"tasks": 2, "plan.epochs": 1, "network.hidden": [8]}
OPTIONS = ["--tasks", "2", "--epochs", "1", "--set", "network.hidden=[8]"]
"""The same on the command line."""


def small(method: str = "ucl", benchmark: str = "split-digits", **settings: Any) -> RunConfig:
    """A small run; settings with a double underscore for the dot."""
    seed = settings.pop("seed", 0)
    own = {key.replace("__", "."): value for key, value in settings.items()}
    return resolve(benchmark, method, seed=seed, overrides={**SMALL, **own})
