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
    epochs: options.Epochs = None,
    tasks: options.Tasks = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    config: options.Config = None,
    out: options.Out = options.DEFAULT_OUT,
    data: options.DataFolder = None,
    workers: options.Workers = None,
    device: options.Device = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    checkpoint_seconds: options.CheckpointSeconds = 30.0,
) -> None:
    """Learn a sequence of tasks with one method, and see what is left of the first ones.

    Without any argument: the digits that come with the package, `ucl` beside `finetuning`. Run the
    same command again and it goes on where it was stopped, or says that it is done.

    Started by torchrun, several processes learn one model: torchrun --nproc-per-node=2 -m uclearn
    run permuted-digits.
    """
    from uclearn.runs.resolve import resolve

    launch = options.launch(
        out,
        quiet,
        json,
        data=data,
        workers=workers,
        device=device,
        checkpoint_seconds=checkpoint_seconds,
    )
    if config is not None and config.suffix == ".json":
        if benchmark or method or preset or settings or epochs or tasks or seeds > 1:
            raise SettingError(f"{config} says everything about its run; leave the other options.")
        launch.make([_stored(config)])
        return
    chosen = options.gathered(config, settings, epochs=epochs, tasks=tasks)
    named = options.taken(chosen, "benchmark", benchmark)
    method = options.taken(chosen, "method", method)
    preset = options.taken(chosen, "preset", preset) or "best"
    methods = [method or "ucl"] if method or named else ["ucl", "finetuning"]
    named = named or options.DEFAULT_BENCHMARK
    launch.make(
        resolve(named, each, preset=preset, seed=seed, overrides=chosen, methods=methods)
        for each in methods
        for seed in range(seeds)
    )


def _stored(path: Path) -> RunConfig:
    """The configuration of a run, from its config.json or summary.json."""
    from uclearn.runs.supervised import RunConfig
    from uclearn.storage.records import read_document

    document = read_document(path, "summary" if path.name == "summary.json" else "config")
    if document is None:
        raise SettingError(f"The file {path} cannot be read: there is none.")
    return RunConfig.from_document(document.get("config"))
