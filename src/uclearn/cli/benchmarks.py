"""`uclearn benchmarks`: what there is to learn."""

from __future__ import annotations


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
