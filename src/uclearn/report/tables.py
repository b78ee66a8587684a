"""What tables in Markdown are made of."""

from collections.abc import Sequence

from uclearn.measures.statistics import Estimate
from uclearn.report.words import UNKNOWN


def spread(found: Estimate | None, *, width: bool = True) -> str:
    """A mean with half the width of its interval, in percent.

    >>> spread(Estimate(0.945, 3, 0.0021)), spread(Estimate(0.945, 1, None)), spread(None)
    ('94.5 ± 0.2', '94.5', '–')
    """
    if found is None:
        return UNKNOWN
    half = found.half_width if width else None
    return f"{round(100 * found.mean, 1) + 0.0:.1f}" + (
        "" if half is None else f" ± {100 * half:.1f}"
    )


def spread_of(found: Estimate | None) -> str:
    """A mean with half the width of its interval.

    >>> spread_of(Estimate(1.65, 3, 0.214)), spread_of(Estimate(1.65, 1, None))
    ('1.65 ± 0.21', '1.65')
    """
    if found is None:
        return UNKNOWN
    half = "" if found.half_width is None else f" ± {found.half_width:.2f}"
    return f"{found.mean:.2f}{half}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; what stands in a cell stays in it.

    >>> print(table(["a", "b"], [["1|2", "3"]]))
    | a | b |
    |---|---|
    | 1\\|2 | 3 |
    """
    head, *body = ["| " + " | ".join(map(_in_cell, line)) + " |" for line in (header, *rows)]
    return "\n".join([head, "|" + "---|" * len(header), *body])


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
