"""`uclearn data`: what data sets are there, and getting them."""

from __future__ import annotations

from typing import Annotated

import typer

from uclearn.cli import options
from uclearn.cli.printing import print_json, print_table, working

app = typer.Typer(help="List the data sets that are there, checked by checksum; get others.")


@app.callback(invoke_without_command=True)
def listed(
    context: typer.Context, data: options.DataFolder = None, json: options.Json = False
) -> None:
    """List the data sets that are there, checked by checksum; get others."""
    if context.invoked_subcommand is not None:
        return
    from uclearn.tasks.sources.dataset import data_folder
    from uclearn.tasks.sources.verify import listing

    with working("Comparing checksums"):
        found = listing(data)
    if json:
        print_json(
            {key: getattr(each, key) for key in ("name", "state", "detail")} for each in found
        )
        return
    print_table(
        ("name", "what", "state", "detail"),
        ((each.name, each.title, each.state, each.detail) for each in found),
        title=f"data sets in {data_folder(data)}",
        caption="`uclearn data get NAME` downloads one. The digits come with the package.",
    )


@app.command(cls=options.Command)
def get(
    name: Annotated[str, options.one_of("datasets", "Which: {datasets}.")],
    data: options.DataFolder = None,
    quiet: options.Quiet = False,
) -> None:
    """Download a data set from its public mirrors; an interrupted download goes on."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    from uclearn.tasks.sources.catalogue import dataset
    from uclearn.tasks.sources.download import get as download

    dataset(name)  # or an error, before anything moves
    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        lines: dict[str, int] = {}

        def progress(file: str, done: int, total: int | None) -> None:
            if file not in lines:
                lines[file] = bar.add_task(file, total=total)
            bar.update(lines[file], completed=done, total=total)  # type: ignore[arg-type]

        status = download(name, data, progress)
    if not quiet:
        typer.echo(f"{status.name}: {status.state}, {status.detail}")
