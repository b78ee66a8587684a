"""How commands print rows: as lines of JSON, or as a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Column
    from rich.text import Text


def print_json(lines: Iterable[Mapping[str, Any]]) -> None:
    """One object per line."""
    for line in lines:
        typer.echo(json.dumps(line))


def print_table(
    columns: Sequence[str | Column],
    rows: Iterable[Iterable[str | Text]],
    *,
    title: str | None = None,
    caption: str | None = None,
    right: Collection[str] = (),
) -> None:
    """A table of what stands in the rows, brackets included; the columns named in `right` are
    aligned to the right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*columns, title=title, caption=caption)
    for column in table.columns:
        if column.header in right:
            column.justify = "right"
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    Console().print(table)


def spoken(seconds: float) -> str:
    """A rough time in words.

    >>> spoken(40), spoken(400), spoken(40000)
    ('40 seconds', '7 minutes', '11 hours')
    """
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


@contextmanager
def working(what: str) -> Iterator[None]:
    """While it takes its time: a line in the terminal that moves, and is gone afterwards."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield
