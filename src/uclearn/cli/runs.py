"""`uclearn runs`: what has been made."""

from __future__ import annotations

import csv
import json as json_lines
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from uclearn.cli import options

if TYPE_CHECKING:
    from uclearn.storage.records import Run

_COLUMNS = (
    *("folder", "benchmark", "method", "preset", "seed", "state", "average_accuracy", "forgetting"),
    *("seconds", "peak_memory", "parameters_kept", "scale", "changed"),
)


def runs(
    folder: Annotated[Path, typer.Argument(help="A folder with runs somewhere below it.")] = (
        options.DEFAULT_OUT
    ),
    benchmark: Annotated[str | None, typer.Option(help="Only of this benchmark.")] = None,
    method: Annotated[str | None, typer.Option(help="Only of this method.")] = None,
    state: Annotated[
        Literal["complete", "open"] | None, typer.Option(help="Only what is complete, or open.")
    ] = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write them to a CSV file; - is the terminal."),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write all of them as TensorBoard logs."),
    ] = None,
    json: options.Json = False,
) -> None:
    """List runs, choose among them, export them as CSV, JSON or TensorBoard logs."""
    from uclearn.storage.records import find_runs, read_run

    if tensorboard is not None:
        from uclearn.runs.tensorboard import export

        written = export([folder], tensorboard)
        typer.echo(
            f"{len(written)} logs written. See them with: tensorboard --logdir {tensorboard}"
        )
        return
    rows = [_row(read_run(place)) for place in find_runs(folder)]
    wanted = {"benchmark": benchmark, "method": method, "state": state}
    rows = [row for row in rows if all(v is None or row[k] == v for k, v in wanted.items())]
    if csv_file is not None:
        _write_csv(rows, csv_file)
    elif json:
        for row in rows:
            typer.echo(json_lines.dumps(row))
    else:
        _print(rows, folder)


def _row(run: Run) -> dict[str, Any]:
    config, summary = run.config, run.summary
    row: dict[str, Any] = {
        "folder": str(run.folder),
        **{key: config.get(key) for key in ("benchmark", "method", "preset", "seed")},
        "state": "open" if summary is None else "complete",
    }
    for key in ("average_accuracy", "forgetting", "seconds", "peak_memory", "parameters_kept"):
        row[key] = None if summary is None else getattr(summary, key)
    return {
        **row,
        "scale": config.get("scale"),
        "changed": " ".join(config.get("changed", [])),
    }


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    import io

    from uclearn.storage.files import write_text

    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    if str(path) == "-":
        sys.stdout.write(text.getvalue())
    else:
        write_text(path, text.getvalue())


def _print(rows: list[dict[str, Any]], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(rows)} runs in {folder}")
    for column in ("benchmark", "method", "seed", "accuracy", "forgetting", "seconds", "notes"):
        table.add_column(column)
    for row in rows:
        scaled = "" if row["scale"] is None else f"scale {row['scale']:g} "
        table.add_row(
            str(row["benchmark"]),
            f"{row['method']} ({row['preset']})",
            str(row["seed"]),
            "open" if row["state"] == "open" else _percent(row["average_accuracy"]),
            _percent(row["forgetting"]),
            "" if row["seconds"] is None else f"{row['seconds']:.0f}",
            scaled + row["changed"],
        )
    Console().print(table)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
