"""`uclearn status`: what became of every update, and how much room is left."""

from __future__ import annotations

import json as json_lines
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from uclearn.cli import options
from uclearn.errors import DataError, SettingError

Line = Mapping[str, Any]


def status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the model is kept.")],
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Write it as an HTML page that works offline."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Tell what a model was taught, which updates were rejected and why, and how full it is."""
    from uclearn.live.journal import read_journal, under_way

    lines, begun = read_journal(folder), under_way(folder)
    if not lines and not begun:
        raise DataError(f"There is no journal in {folder}. `uclearn learn` begins one.")
    if report is not None:
        _write(folder, report)
    if json:
        for line in lines:
            typer.echo(json_lines.dumps({k: v for k, v in line.items() if k != "nodes"}))
        for line in begun:
            typer.echo(json_lines.dumps(line))
        typer.echo(json_lines.dumps({"event": "capacity", **_room(lines)}))
        return
    _print(lines, folder)
    for line in begun:
        typer.echo(
            f"{line['name']} was begun at {line['time']} and has not ended: it is being learned, "
            "or was interrupted, and then the model is what it was before."
        )
    if words := _room(lines).get("words"):
        typer.echo(words)


def _room(lines: Sequence[Line]) -> dict[str, Any]:
    """How full the network is; nothing for methods that know no uncertainty of nodes."""
    from uclearn.live.capacity import capacity_of
    from uclearn.live.journal import node_history

    history = node_history(lines)
    if not history:
        return {}
    found = capacity_of(history)
    return {
        "layers": {room.name: round(room.share, 4) for room in found.layers},
        "network": round(found.network.share, 4),
        "words": found.words,
    }


def _print(journal: Sequence[Line], folder: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from uclearn.live.journal import updates

    lines = updates(journal)
    kept = sum(line["decision"] != "rejected" for line in lines)
    broken = [line for line in journal if line["event"] == "interrupted"]
    told = f", {len(broken)} interrupted" if broken else ""
    table = Table(
        *("", "update", "when", "examples", "learned", "largest drop", "decision"),
        title=f"{folder}: {len(lines)} updates, {kept} kept{told}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for line in lines:
        table.add_row(
            str(line["number"]),
            line["name"] if line["name"] == line["task"] else f"{line['name']} ({line['task']})",
            line["time"][:10],
            f"{line['train']} + {line['canary']}",
            "" if line["accuracy"] is None else f"{100 * line['accuracy']:.1f} %",
            _worst(line),
            line["decision"],
        )
    console = Console()
    console.print(table)
    for line in lines:
        if line["decision"] in ("rejected", "warned"):
            console.print(f"{line['name']} {line['decision']}: {line['reason']}", highlight=False)
        for note in line.get("notes", ()):
            console.print(f"{line['name']}: {note}", highlight=False)
    for line in broken:
        console.print(
            f"{line['name']} interrupted: begun at {line['begun']}, {line['why']}. It is not "
            "counted, and left the model as it was.",
            highlight=False,
        )


def _worst(line: Line) -> str:
    if not line["compared"]:
        return ""
    worst = max(line["compared"], key=lambda one: one["drop"])
    return f"{100 * worst['drop']:.1f} ({worst['task']})"


def _write(folder: Path, out: Path) -> None:
    try:
        from uclearn.report import write_journal_report
    except ImportError as error:
        raise SettingError(
            f"The report needs a package that is not installed ({error.name}): pip install "
            "'uclearn[report]'."
        ) from error
    write_journal_report(folder, out)
    typer.echo(f"Written to {out}.", err=True)
