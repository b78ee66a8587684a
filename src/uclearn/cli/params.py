"""`uclearn params`: how many numbers each method keeps."""

from __future__ import annotations

import json as json_lines

import typer

from uclearn.cli import options


def params(benchmark: options.Benchmark, json: options.Json = False) -> None:
    """Count what each method has to keep in memory, beside the paper's Table 1."""
    from uclearn.experiments.params import parameter_table
    from uclearn.report.paper import PARAMETERS

    rows = parameter_table(benchmark)
    thousands = PARAMETERS.get(benchmark.removesuffix("-large"), {})
    if json:
        for row in rows:
            printed = thousands.get(row.method)
            typer.echo(
                json_lines.dumps({"benchmark": benchmark, **row._asdict(), "paper": printed})
            )
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"numbers kept after all tasks of {benchmark}")
    table.add_column("method")
    for column in ("ours", "x plain", "paper, table 1"):
        table.add_column(column, justify="right")
    for row in rows:
        beside = f"{thousands[row.method]}K" if row.method in thousands else ""
        table.add_row(row.label, f"{row.kept:,}", f"{row.kept / rows[0].kept:.2f}", beside)
    Console().print(table)
