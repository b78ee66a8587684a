"""Runs that take a blink: few tasks, one epoch, a narrow network, on the digits of the package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.tasks.own.files import write_npz
from uclearn.runs import Job, RunConfig, resolve
from uclearn.runs import run as run_job
from uclearn.runs.config import Configuration
from uclearn.session import Observer
from uclearn.storage.records import Summary
from uclearn.tasks.own.source import own_data

SMALL: dict[str, Any] = {"tasks": 2, "plan.epochs": 1, "network.hidden": [8]}
OPTIONS = ["--tasks", "2", "--epochs", "1", "--set", "network.hidden=[8]"]
"""The same on the command line."""


def small(method: str = "ucl", benchmark: str = "split-digits", **settings: Any) -> RunConfig:
    """A small run; settings with a double underscore for the dot."""
    seed, preset = settings.pop("seed", 0), settings.pop("preset", "default")
    own = {key.replace("__", "."): value for key, value in settings.items()}
    return resolve(benchmark, method, preset=preset, seed=seed, overrides={**SMALL, **own})


def placed(configs: Iterable[Configuration], out: Path, **options: Any) -> list[Job]:
    """Jobs for their runs, each in its own folder below `out`."""
    return [Job(config, out / config.folder_name(), **options) for config in configs]


def run(
    config: Configuration, folder: Path, observer: Observer | None = None, **options: Any
) -> Summary:
    """Make one run in `folder`."""
    return run_job(Job(config, folder, **options), observer)


def own(folder: Path, method: str = "ewc") -> RunConfig:
    """A small run of data of one's own, which lie in `folder`: classes come later."""
    folder.mkdir(exist_ok=True)
    described = own_data(write_npz(folder / "four.npz"), split=2, scenario="class")
    return resolve(described, method, overrides={"plan.epochs": 2, "network.hidden": [8]})
