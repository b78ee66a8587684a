"""A run of the benchmarks, kept: the record beside this file, a table and a chart in docs/speed.md.

`python -m benchmarks --record benchmarks/record.json` measures, keeps the numbers and writes both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.pages import filled
from benchmarks.timing import Bar

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
CHART = PAGE.with_suffix(".svg")
Record = dict[str, Any]


def record_of(bars: Iterable[Bar]) -> Record:
    """The machine, and a row for each bar."""
    rows = [
        {
            "what": bar.name,
            "measured": round(bar.ratio, 3),
            "limit": bar.limit,
            "detail": bar.detail,
        }
        for bar in bars
    ]
    return {"machine": machine(), "rows": rows}


def keep(path: Path, bars: Iterable[Bar]) -> None:
    """Write the record; if it is the one of the page, the page and the chart, too."""
    record = record_of(bars)
    path.write_text(json.dumps(record, indent=1) + "\n")
    if path.resolve() == RECORD:
        PAGE.write_text(filled(PAGE.read_text(), tables(record)))
        CHART.write_text(chart(record))


def tables(record: Record) -> dict[str, str]:
    """What stands on the page, by name."""
    lines = ["| what | measured | limit | holds | |", "|---|---|---|---|---|"]
    for row in record["rows"]:
        holds = "yes" if row["measured"] <= row["limit"] else "**no**"
        cells = (row["what"], f"{row['measured']:.2f}", f"{row['limit']:.2f}", holds, row["detail"])
        lines.append(f"| {' | '.join(cells)} |")
    told = record["machine"]
    said = (
        f"{told['processor']} ({', '.join(told['flags']) or 'no flags of interest'}), "
        f"{told['threads']} threads, torch {told['torch']}, "
        f"work on the weights: {told['weights']}, {told['date']}."
    )
    if remark := told.get("remark"):  # written by hand into a record that is not as it should be
        said += f" **{remark}**"
    return {"machine": said, "ratios": "\n".join(lines)}


def chart(record: Record) -> str:
    """Measured as a bar, its limit as a mark; what exceeds the limit has another colour."""
    rows, left, scale, step = record["rows"], 430, 260, 22
    most = 2.5  # what is longer is cut off, and its number tells
    height = step * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1150 {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="1150" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="16" fill="#555">cost of a step as a ratio; | its limit</text>',
    ]
    for number, row in enumerate(rows):
        top = 26 + step * number
        length = scale * min(row["measured"], most)
        mark = left + scale * min(row["limit"], most)
        colour = "#3b7dd8" if row["measured"] <= row["limit"] else "#d8703b"
        parts += [
            f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{escape(row["what"])}</text>',
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="15" fill="{colour}"/>',
            f'<rect x="{mark - 1:.1f}" y="{top - 3}" width="2" height="21" fill="#222"/>',
            f'<text x="{left + max(length, mark - left) + 8:.1f}" y="{top + 12}">'
            f"{row['measured']:.2f}</text>",
        ]
    return "\n".join([*parts, "</svg>", ""])
