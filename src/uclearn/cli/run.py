"""`uclearn run`: one method, one or several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uclearn.cli import options
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.runs.supervised import RunConfig


def run(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            help="What to learn: {benchmarks}. Default: permuted-digits, which needs no download.",
            autocompletion=options.completing("benchmarks"),
            show_default=False,
        ),
    ] = None,
    method: options.Method = None,
    seeds: options.Seeds = 1,
    *,
    chosen: options.Chosen,
    making: options.Making,
) -> None:
    """Learn a sequence of tasks with one method, and see what is left of the first ones.

    Without any argument: the digits that come with the package, `ucl` beside `finetuning`. Run the
    same command again and it goes on where it was stopped, or says that it is done.

    Started by torchrun, several processes learn one model: torchrun --nproc-per-node=2 -m uclearn
    run permuted-digits.
    """
    from uclearn.runs.resolve import resolve

    launch = making.launch()
    stored = chosen.config
    if stored is not None and stored.suffix == ".json":
        if benchmark or method or seeds > 1 or chosen != options.Chosen(config=stored):
            raise SettingError(f"{stored} says everything about its run; leave the other options.")
        launch.make([_stored(stored)])
        return
    settings = chosen.gathered()
    named = options.taken(settings, "benchmark", benchmark)
    method = options.taken(settings, "method", method)
    preset = options.taken(settings, "preset", chosen.preset) or "best"
    methods = [method or "ucl"] if method or named else ["ucl", "finetuning"]
    named = named or options.DEFAULT_BENCHMARK
    launch.make(
        resolve(named, each, preset=preset, seed=seed, overrides=settings, methods=methods)
        for each in methods
        for seed in range(seeds)
    )


def _stored(path: Path) -> RunConfig:
    """The configuration of a run, from its config.json or summary.json."""
    from uclearn.runs.supervised import RunConfig
    from uclearn.storage.records import read_document

    document = read_document(path)
    if document is None:
        raise SettingError(f"The file {path} cannot be read: there is none.")
    return RunConfig.from_document(document.get("config"))
