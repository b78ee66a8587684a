"""`uclearn report`: one HTML page of figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uclearn.cli import options
from uclearn.errors import DataError, SettingError


def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with runs somewhere below them. Default: runs."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The page to write; a name in .md: tables in Markdown, a section for each folder.",
        ),
    ] = Path("report.html"),
) -> None:
    """Draw everything there is into one HTML page that works offline."""
    from uclearn.storage.records import find_runs

    chosen = folders or [options.DEFAULT_OUT]
    if not any(find_runs(folder) for folder in chosen):
        places = ", ".join(map(str, chosen))
        raise DataError(f"There is no run at or below {places}. `uclearn run` makes some.")
    try:
        from uclearn.report import write_report
    except ImportError as error:
        raise SettingError(
            f"The report needs a package that is not installed ({error.name}): pip install "
            "'uclearn[report]'."
        ) from error
    write_report(chosen, out)
    typer.echo(f"Written to {out}.")
