"""`uclearn benchmarks` and `presets`: what there is to learn; every setting, its value and where it
comes from."""

from __future__ import annotations

import json as json_lines

import typer

from uclearn.cli import options


def presets(
    benchmark: options.Benchmark = options.DEFAULT_BENCHMARK,
    method: options.Method = None,
    preset: options.Preset = None,
    json: options.Json = False,
) -> None:
    """Show all settings of a method on a benchmark, and where each value comes from.

    Any of them can be changed by --set KEY=VALUE in the other commands.
    """
    from uclearn.runs.resolve import resolve, settable
    from uclearn.runs.supervised import preset as sourced

    name, which = method or "ucl", preset or "best"
    document = resolve(benchmark, name, preset=which).model_dump(mode="json")
    values = {**document, **document["settings"]}
    sources = {key: source for key, (_, source) in sourced(benchmark, name, which).items()}
    rows = []
    for key in settable(name):
        group, _, setting = key.partition(".")
        value = values[group][setting] if setting else values[group]
        rows.append((key, value, sources.get(key, "default")))
    if json:
        for key, value, source in rows:
            typer.echo(json_lines.dumps({"key": key, "value": value, "source": source}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name} on {benchmark}, preset {which}")
    for column in ("setting", "value", "source"):
        table.add_column(column)
    for key, value, source in rows:
        table.add_row(key, "none" if value is None else json_lines.dumps(value), source)
    Console().print(table)


def benchmarks() -> None:
    """List the benchmarks: their tasks, and the data they need."""
    from rich.console import Console
    from rich.table import Table

    from uclearn.tasks.benchmarks import BENCHMARKS

    table = Table(show_lines=False)
    for column in ("benchmark", "tasks", "what", "data"):
        table.add_column(column, justify="right" if column == "tasks" else "left")
    entries, problems = BENCHMARKS.sound()
    for entry in entries.values():
        needed = ", ".join(entry.data) or "comes with the package"
        table.add_row(entry.name, str(entry.tasks), entry.description, needed)
    Console().print(table)
    for problem in problems:
        Console(stderr=True, soft_wrap=True).print(problem)
