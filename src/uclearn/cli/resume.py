"""`uclearn resume`: go on with what was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uclearn.cli import options
from uclearn.errors import DataError


def resume(
    folder: Annotated[Path, typer.Argument(help="A run, or a folder with runs below it.")],
    data: options.DataFolder = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Go on with every run in a folder that is not complete, from what its folder says."""
    from uclearn.cli.launch import Launch
    from uclearn.runs.kind import read_config
    from uclearn.storage.records import find_runs, read_run

    launch = Launch(folder, options.mode(quiet, json), data=data, workers=workers)
    found = [read_run(place) for place in find_runs(folder)]
    open_runs = [run for run in found if run.summary is None]
    if not found:
        raise DataError(f"There is no run at or below {folder}. Check the path.")
    if not open_runs:
        if launch.mode == "live":
            typer.echo(
                f"All {len(found)} runs in {folder} are complete; there is nothing to resume."
            )
        return
    launch.finish([launch.job(read_config(run.config), run.folder) for run in open_runs])
