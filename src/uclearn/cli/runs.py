"""`uclearn runs`, `resume` and `report`: what has been made is listed, gone on with, or drawn."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from uclearn.cli import options
from uclearn.cli.printing import print_json, print_table
from uclearn.errors import DataError, SettingError

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
    from uclearn.storage.index import outlines

    if folder == options.DEFAULT_OUT and not folder.exists():
        first = "uclearn compare permuted-digits --methods ucl,ewc"
        typer.echo(f"No runs yet. The first: {first}", err=True)
        return
    if tensorboard is not None:
        from uclearn.runs.tensorboard import export

        written = export([folder], tensorboard)
        typer.echo(
            f"{len(written)} logs written. See them with: tensorboard --logdir {tensorboard}"
        )
        return
    sound, damaged = outlines(folder, _row, kind=",".join(_COLUMNS))
    rows = [{"folder": str(place), **row} for place, row in sound]
    _tell_damage(damaged)
    wanted = {"benchmark": benchmark, "method": method, "state": state}
    rows = [row for row in rows if all(v is None or row[k] == v for k, v in wanted.items())]
    if csv_file is not None:
        _write_csv(rows, csv_file)
    elif json:
        print_json(rows)
    else:
        _print(rows, folder)


def _tell_damage(damaged: list[tuple[Path, str]]) -> None:
    for place, why in damaged:
        typer.echo(f"Left out, since it is damaged: {place}: {why}", err=True)


def _row(run: Run) -> dict[str, Any]:
    config, summary = run.config, run.summary
    row: dict[str, Any] = {
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
    cells = (
        (
            str(row["benchmark"]),
            f"{row['method']} ({row['preset']})",
            str(row["seed"]),
            "open" if row["state"] == "open" else _percent(row["average_accuracy"]),
            _percent(row["forgetting"]),
            "" if row["seconds"] is None else f"{row['seconds']:.0f}",
            ("" if row["scale"] is None else f"scale {row['scale']:g} ") + row["changed"],
        )
        for row in rows
    )
    columns = ("benchmark", "method", "seed", "accuracy", "forgetting", "seconds", "notes")
    runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    print_table(columns, cells, title=f"{runs} in {folder}")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def resume(
    folder: Annotated[Path, typer.Argument(help="A run, or a folder with runs below it.")],
    data: options.DataFolder = None,
    workers: options.Workers = None,
    track: options.Track = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Go on with every run in a folder that is not complete, from what its folder says."""
    from uclearn.cli.launch import Launch
    from uclearn.runs.config import read_config
    from uclearn.storage.records import read_runs

    launch = Launch(folder, options.mode(quiet, json), data=data, workers=workers, track=track)
    found, damaged = read_runs(folder)
    _tell_damage(damaged)
    open_runs = [run for run in found if run.summary is None]
    if not found and not damaged:
        raise DataError(f"There is no run at or below {folder}. Check the path.")
    if not open_runs and launch.mode == "live":
        typer.echo(f"Every run in {folder} is complete; there is nothing to resume.")
    programs = [run for run in open_runs if "program" in run.config]
    for run in programs:
        typer.echo(
            f"{run.folder} was begun by a program of your own; start that again and it goes on.",
            err=True,
        )
    jobs = [
        launch.job(read_config(run.config), run.folder) for run in open_runs if run not in programs
    ]
    if jobs:
        launch.finish(jobs)
    if damaged:
        raise typer.Exit(1)


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
            metavar="PLACE",
            help="page.html: one page that works offline; tables.md: Markdown, a section for each "
            "folder; a name without an ending, as paper: a folder with every figure as PDF and SVG "
            "and every table as LaTeX and CSV.",
        ),
    ] = Path("report.html"),
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Another name for what the report calls OLD, as 'UCL, beta 0.03=Ours'; may be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Draw everything there is into one HTML page that works offline, or into files for a paper."""
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
    write_report(chosen, out, dict(map(_renaming, label or ())))
    typer.echo(f"Written to {out}.")


def _renaming(text: str) -> tuple[str, str]:
    old, _, new = (part.strip() for part in text.rpartition("="))
    if not old or not new:
        raise SettingError(
            f"`--label` must be OLD=NEW, as 'UCL, beta 0.03=Ours', got {text!r}. OLD is the name "
            "that the report gives without it."
        )
    return old, new
