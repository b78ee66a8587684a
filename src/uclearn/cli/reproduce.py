"""`uclearn reproduce`: what the paper shows, made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uclearn.cli import options
from uclearn.cli.estimate import Estimated, Without, announce, kept

if TYPE_CHECKING:
    from uclearn.runs.supervised import RunConfig


def reproduce(
    what: Annotated[str, options.one_of("studies", "Which of: {studies}.", "FIGURE|TABLE")],
    scale: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1.0,
            help="Shrink epochs and seeds to this share, to save time. Such runs are marked as "
            "scaled wherever they are shown.",
        ),
    ] = 1.0,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Default: as in the paper, 5 or 8.", show_default=False),
    ] = None,
    estimate: Estimated = False,
    without: Without = None,
    *,
    making: options.MakingAnywhere,
) -> None:
    """Make a figure or table of the paper again, with its settings; first see how long it takes.

    Run the same command again and only what is missing is made; `uclearn report` draws the figure.
    """
    launch = making.launch()
    if what == "table-1":
        from uclearn.cli.own import Own
        from uclearn.cli.params import params
        from uclearn.paper.numbers import PARAMETERS

        for name in PARAMETERS:
            params(name, json=making.json, own=Own())
        return
    from uclearn.cli.launch import FAILED
    from uclearn.paper.studies import study, study_configs
    from uclearn.runs.resolve import resolve

    wanted = study(what)
    every = study_configs(wanted, resolve, scale=scale if scale < 1 else None, seeds=seeds)
    configs = kept(every, without)
    possible = _with_data(configs, launch.data)
    if launch.mode == "live":
        typer.echo(f"{what}: {wanted.title}. {wanted.note}".strip())
        if scale < 1:
            typer.echo(
                f"SCALED to {scale:g} of the epochs and seeds: not to be compared with the paper."
            )
    if possible and (estimate or launch.mode == "live"):
        announce(possible, launch)
    if possible and not estimate:
        launch.make(possible, f"{what}: {wanted.title}")
    if len(possible) < len(configs):
        raise typer.Exit(FAILED)


def _with_data(configs: list[RunConfig], data: Path | None) -> list[RunConfig]:
    """The runs whose data are there; what is missing is said, and the rest goes on."""
    from uclearn.tasks.benchmarks import absent_data
    from uclearn.tasks.sources.dataset import data_folder

    absent = {name: absent_data(name, data) for name in dict.fromkeys(c.benchmark for c in configs)}
    for name, missing in absent.items():
        if missing:
            get = " and ".join(f"`uclearn data get {needed.name}`" for needed in missing)
            typer.echo(
                f"Left out: {name}, its data are not in {data_folder(data)}. Get them by {get}.",
                err=True,
            )
    return [config for config in configs if not absent[config.benchmark]]
