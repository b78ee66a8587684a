"""`uclearn compare`: methods side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from uclearn.cli import options
from uclearn.errors import SettingError


def compare(
    benchmark: options.Benchmark,
    methods: Annotated[
        str,
        typer.Option(
            metavar="all|NAME,NAME,...",
            help="Which methods: {methods}; with a plus and one of {wrappers}, as vcl+coreset.",
        ),
    ] = "all",
    seeds: options.Seeds = 3,
    epochs: options.Epochs = None,
    tasks: options.Tasks = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    config: options.Config = None,
    out: options.OutOrUrl = str(options.DEFAULT_OUT),
    data: options.DataFolder = None,
    workers: options.Workers = None,
    on: options.On = "local",
    address: options.Address = None,
    slurm: options.Slurm = None,
    threads: options.Threads = None,
    gpus: options.Gpus = 0,
    checkpoint_seconds: options.CheckpointSeconds = 30.0,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Learn the same tasks with several methods and seeds, in parallel.

    Run the same command again and only what is missing is made. Two at once share the work.
    """
    from uclearn.methods.registry import METHODS, parts
    from uclearn.runs.resolve import resolve

    launch = options.launch(
        out,
        quiet,
        json,
        data=data,
        workers=workers,
        on=on,
        address=address,
        slurm=slurm,
        threads=threads,
        gpus=gpus,
        checkpoint_seconds=checkpoint_seconds,
    )
    chosen = options.gathered(config, settings, epochs=epochs, tasks=tasks)
    options.taken(chosen, "benchmark", benchmark)
    preset = options.taken(chosen, "preset", preset) or "best"
    names = list(METHODS) if methods == "all" else [n.strip() for n in methods.split(",")]
    names = list(dict.fromkeys("+".join(parts(name)) for name in names))
    tuned = options.taken(chosen, "method", None)
    if tuned is not None and tuned not in names:
        raise SettingError(f"The file is for `method` {tuned}, which is not compared: name it too.")
    launch.make(
        resolve(benchmark, name, preset=preset, seed=seed, overrides=chosen, methods=names)
        for seed in range(seeds)
        for name in names
    )
