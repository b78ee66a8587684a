"""The page read again says what it shows."""

from __future__ import annotations

from uclearn.report.html import details, table, tag
from uclearn.report.reading import cells_of, is_seen, read_page, shown


def test_rows_that_are_not_shown_are_left_out() -> None:
    buttons = [
        tag("button", {"data-group": k, "aria-pressed": "true" if k < 2 else "false"}, "x")
        for k in range(3)
    ]
    rows = [["UCL", "1"], ["EWC", "2"], ["SI", "3"], ["Random", "4"]]
    page = read_page(tag("div", {}, *buttons, table("Of", ["M", "V"], rows, keys=[0, 1, 2, -1])))
    groups = shown(page)
    assert groups == {0, 1, -1}
    cells = cells_of(page.named("table")[0], groups)
    assert (cells.caption, cells.header) == ("Of", ["M", "V"])
    assert cells.rows == [["UCL", "1"], ["EWC", "2"], ["Random", "4"]]


def test_what_is_shown_on_request_is_not_seen_numbers_below_a_figure_are() -> None:
    inner = tag("figure", {})
    for words, seen in (("The same for EWC", False), ("The numbers", True)):
        page = read_page(details(words, inner))
        assert is_seen(page.named("figure")[0], {-1}) is seen
