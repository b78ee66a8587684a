"""Tables that a program writes into pages that people write."""

from __future__ import annotations


def filled(page: str, tables: dict[str, str]) -> str:
    """The page with each table in its place, between its marks."""
    for name, table in tables.items():
        begin = f"<!-- {name} -->\n"
        assert page.count(begin) == 1, f"no place, or several, for the table {name!r}"
        before, _, rest = page.partition(begin)
        _, end, after = rest.partition("<!-- end -->")
        page = f"{before}{begin}\n{table}\n\n{end}{after}"
    return page
