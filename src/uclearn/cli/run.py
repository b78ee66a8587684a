"""`uclearn run`, `compare` and `ablate`: one method, several, or UCL without its parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uclearn.cli import options
from uclearn.cli.own import Own
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.runs.supervised import RunConfig


def run(
    benchmark: Annotated[
        str | None,
        options.one_of(
            "benchmarks",
            "What to learn: {benchmarks}, or the path of data of your own. Default: "
            "permuted-digits, which needs no download.",
        ),
    ] = None,
    method: options.Method = None,
    seeds: options.Seeds = 1,
    *,
    own: Own,
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
        others = (own, chosen) != (Own(), options.Chosen(config=stored))
        if benchmark or method or seeds > 1 or others:
            raise SettingError(f"{stored} says everything about its run; leave the other options.")
        launch.make([_stored(stored)])
        return
    settings = chosen.gathered()
    named = options.taken(settings, "benchmark", benchmark)
    method = options.taken(settings, "method", method)
    preset = options.taken(settings, "preset", chosen.preset) or "default"
    methods = [method or "ucl"] if method or named else ["ucl", "finetuning"]
    subject = own.subject(named or options.DEFAULT_BENCHMARK, settings)
    launch.make(
        resolve(subject, each, preset=preset, seed=seed, overrides=settings, methods=methods)
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
    own: Own,
    chosen: options.Chosen,
    making: options.MakingAnywhere,
) -> None:
    """Learn the same tasks with several methods and seeds, in parallel.

    Run the same command again and only what is missing is made. Two at once share the work.
    """
    from uclearn.methods.registry import METHODS, facts, parts
    from uclearn.runs.resolve import resolve
    from uclearn.tasks.benchmarks import benchmark as described

    launch = making.launch()
    settings = chosen.gathered()
    options.taken(settings, "benchmark", benchmark)
    preset = options.taken(settings, "preset", chosen.preset) or "default"
    subject = own.subject(benchmark, settings)
    grows = described(subject).grows
    every = [name for name in METHODS.sound()[0] if not (grows and facts(name).needs_task)]
    given = every if methods == "all" else methods.split(",")
    names = list(dict.fromkeys("+".join(parts(name.strip())) for name in given))
    tuned = options.taken(settings, "method", None)
    if tuned is not None and tuned not in names:
        raise SettingError(f"The file is for `method` {tuned}, which is not compared: name it too.")
    launch.make(
        resolve(subject, name, preset=preset, seed=seed, overrides=settings, methods=names)
        for seed in range(seeds)
        for name in names
    )


def ablate(
    benchmark: options.Benchmark,
    seeds: options.Seeds = 3,
    *,
    own: Own,
    chosen: options.Chosen,
    making: options.Making,
) -> None:
    """What each ingredient of UCL is good for: the whole, and without one of three.

    upper_freeze=false: a weight is held only by the node it leads to, not by the one it comes
    from. freeze=false: large, certain weights are not frozen (equation 5). inflate=false:
    uncertainty does not grow back, nothing is let go (equation 6).
    """
    from uclearn.paper.curves import ablations
    from uclearn.runs.resolve import resolve

    launch = making.launch()
    settings = chosen.gathered()
    preset = options.taken(settings, "preset", chosen.preset) or "default"
    subject = own.subject(benchmark, settings)
    configs = [
        resolve(subject, "ucl", preset=preset, seed=seed, overrides={**settings, **without})
        for seed in range(seeds)
        for without in ablations()
    ]
    launch.make(configs, f"ablation, {configs[0].benchmark}")
