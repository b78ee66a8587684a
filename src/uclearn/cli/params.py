"""`uclearn params`: how many numbers each method keeps, holds and sends."""

from __future__ import annotations

import json as json_lines
from typing import Annotated

import typer

from uclearn.cli import options
from uclearn.errors import SettingError


def params(
    benchmark: options.Benchmark,
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTHS",
            help="Another network for it: widths of hidden layers, as 400,400, or 8192x16 for "
            "sixteen. It is not built and may be of any size.",
        ),
    ] = None,
    ranks: Annotated[int, typer.Option(min=1, help="Processes that learn one model together.")] = 1,
    json: options.Json = False,
) -> None:
    """Count what each method has to keep in memory, beside the paper's Table 1.

    And what it holds while it learns (its state, gradients and the optimiser's moments, not the
    values inside the network), and with --ranks what each process sends in a step.
    """
    from uclearn.paper.numbers import PARAMETERS
    from uclearn.runs.params import BYTES, parameter_table

    rows = parameter_table(benchmark, None if hidden is None else _widths(hidden))
    thousands = PARAMETERS.get(benchmark.removesuffix("-large"), {}) if hidden is None else {}
    if json:
        for row in rows:
            told = {
                "benchmark": benchmark,
                "label": row.label,
                "method": row.method,
                "kept": row.footprint.kept,
                "bytes_learning": BYTES * row.footprint.learning,
                "bytes_sent": round(BYTES * row.footprint.traffic(ranks)),
                "paper": thousands.get(row.method),
            }
            typer.echo(json_lines.dumps(told))
        return
    from rich.console import Console
    from rich.table import Table

    network = "" if hidden is None else f" with hidden layers {hidden}"
    table = Table(title=f"after all tasks of {benchmark}{network}")
    table.add_column("method")
    for column in ("numbers kept", "x plain"):
        table.add_column(column, justify="right", no_wrap=True)
    if thousands:
        table.add_column("paper, table 1", justify="right")
    table.add_column("while learning", justify="right")
    if ranks > 1:
        table.add_column(f"sent per step, each of {ranks}", justify="right")
    for row in rows:
        kept = row.footprint.kept
        cells = [row.label, f"{kept:,}", f"{kept / rows[0].footprint.kept:.2f}"]
        if thousands:
            cells.append(f"{thousands[row.method]}K" if row.method in thousands else "")
        cells.append(_readable(BYTES * row.footprint.learning))
        if ranks > 1:
            cells.append(_readable(BYTES * row.footprint.traffic(ranks)))
        table.add_row(*cells)
    Console().print(table)


def _widths(text: str) -> list[int]:
    """`400,400` or `8192x16`, or both mixed."""
    widths = []
    try:
        for part in text.split(","):
            width, _, times = part.partition("x")
            widths += [int(width)] * int(times or "1")
    except ValueError:
        raise SettingError(
            f"`--hidden` must be widths of hidden layers, as 400,400 or 8192x16, got {text!r}."
        ) from None
    return widths


def _readable(count: float) -> str:
    """Bytes, to three digits."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
