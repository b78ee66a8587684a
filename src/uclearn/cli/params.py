"""`uclearn params`: how many numbers each method keeps, holds and sends."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from uclearn.cli import options
from uclearn.cli.own import Own
from uclearn.cli.printing import print_json, print_table, working
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
    *,
    own: Own,
) -> None:
    """Count what each method has to keep in memory, beside the paper's Table 1.

    And what it holds while it learns (its state, gradients and the optimiser's moments, not the
    values inside the network), and with --ranks what each process sends in a step.
    """
    from uclearn.paper.numbers import PARAMETERS
    from uclearn.runs.params import BYTES, parameter_table

    if hidden is not None and own.network is not None:
        raise SettingError("`--hidden` and `--network` exclude each other: choose one.")
    settings: dict[str, Any] = {}
    subject = own.subject(benchmark, settings)
    widths = None if hidden is None else _widths(hidden)
    with working("Counting what each method keeps"):
        rows = parameter_table(subject, widths, settings)
    thousands = PARAMETERS.get(benchmark.removesuffix("-large"), {}) if hidden is None else {}
    if json:
        print_json(
            {
                "benchmark": benchmark,
                "label": row.label,
                "method": row.method,
                "kept": row.footprint.kept,
                "bytes_learning": BYTES * row.footprint.learning,
                "bytes_sent": round(BYTES * row.footprint.traffic(ranks)),
                "paper": thousands.get(row.method),
            }
            for row in rows
        )
        return
    from rich.table import Column

    whole = [Column(name, justify="right", no_wrap=True) for name in ("numbers kept", "x plain")]
    paper = ["paper, table 1"] if thousands else []
    sent = [f"sent per step, each of {ranks}"] if ranks > 1 else []
    cells = []
    for row in rows:
        kept = row.footprint.kept
        line = [row.label, f"{kept:,}", f"{kept / rows[0].footprint.kept:.2f}"]
        line += [f"{thousands[row.method]}K" if row.method in thousands else "" for _ in paper]
        line.append(_readable(BYTES * row.footprint.learning))
        cells.append([*line, *(_readable(BYTES * row.footprint.traffic(ranks)) for _ in sent)])
    network = "" if hidden is None else f" with hidden layers {hidden}"
    print_table(
        ["method", *whole, *paper, "while learning", *sent],
        cells,
        title=f"after all tasks of {benchmark}{network}",
        right=[*paper, "while learning", *sent],
    )


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
