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
    *,
    chosen: options.Chosen,
    making: options.MakingAnywhere,
) -> None:
    """Learn the same tasks with several methods and seeds, in parallel.

    Run the same command again and only what is missing is made. Two at once share the work.
    """
    from uclearn.methods.registry import METHODS, parts
    from uclearn.runs.resolve import resolve

    launch = making.launch()
    settings = chosen.gathered()
    options.taken(settings, "benchmark", benchmark)
    preset = options.taken(settings, "preset", chosen.preset) or "best"
    given = METHODS.sound()[0] if methods == "all" else methods.split(",")
    names = list(dict.fromkeys("+".join(parts(name.strip())) for name in given))
    tuned = options.taken(settings, "method", None)
    if tuned is not None and tuned not in names:
        raise SettingError(f"The file is for `method` {tuned}, which is not compared: name it too.")
    launch.make(
        resolve(benchmark, name, preset=preset, seed=seed, overrides=settings, methods=names)
        for seed in range(seeds)
        for name in names
    )
