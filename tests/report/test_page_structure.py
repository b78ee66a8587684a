"""The page is whole, stands alone, and can be read by those who do not see it."""

import itertools
from collections import Counter

from tests.report.pages import Element, specs


def test_nothing_is_fetched(page: Element) -> None:
    for one in page:
        assert "src" not in one.attributes
        href = one.attributes.get("href")
        assert href is None or href.startswith("#")
        assert one.name not in ("link", "iframe", "object", "embed", "base", "form")
    (policy,) = [
        one.attributes["content"]
        for one in page.all("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_id_is_there_once_and_every_reference_leads_somewhere(page: Element) -> None:
    ids = Counter(one.attributes["id"] for one in page if one.attributes.get("id"))
    assert set(ids.values()) == {1}
    for one in page:
        for attribute in ("href", "aria-labelledby"):
            if (target := one.attributes.get(attribute)) is not None:
                assert target.lstrip("#") in ids, target


def test_headings_go_down_one_level_at_a_time(page: Element) -> None:
    levels = [int(one.name[1]) for one in page if one.name in ("h1", "h2", "h3", "h4", "h5")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    for before, after in itertools.pairwise(levels):
        assert after <= before + 1


def test_every_table_has_a_caption_headers_and_even_rows(page: Element) -> None:
    assert page.all("table")
    for table in page.all("table"):
        (caption,) = table.all("caption")
        assert caption.text
        assert all(th.attributes.get("scope") for th in table.all("th"))
        width = len(table.all("thead")[0].all("th"))
        spans = [
            sum(int(cell.attributes.get("colspan") or 1) for cell in row if cell.name in _CELLS)
            + (1 if _is_continued(row) else 0)
            for row in table.all("tr")
        ]
        assert set(spans) == {width}


_CELLS = ("td", "th")


def _is_continued(row: Element) -> bool:
    """The heading of the row above reaches down into it."""
    cells = [one for one in row if one.name in _CELLS]
    return cells[0].attributes.get("class") == "command"


def test_every_table_can_be_scrolled_by_keyboard(page: Element) -> None:
    regions = page.all("div", "scroll")
    assert len(regions) == len(page.all("table"))
    for region in regions:
        assert region.attributes["tabindex"] == "0"
        assert region.attributes["role"] == "region"
        assert region.attributes["aria-label"] == region.all("caption")[0].text.replace(
            " %", "\xa0%"
        )


def test_every_chart_says_in_words_what_it_shows(page: Element) -> None:
    charts = page.all("div", "chart")
    assert len(charts) == len(specs(page))
    for chart in charts:
        assert chart.attributes["role"] == "img"
        label = chart.attributes["aria-label"]
        assert label is not None
        assert len(label) > 40


def test_every_button_says_what_it_does(page: Element) -> None:
    for button in page.all("button"):
        assert button.text
        assert button.attributes["type"] == "button"


def test_the_first_link_skips_to_the_results(page: Element) -> None:
    first = page.all("a")[0]
    assert first.attributes["href"] == "#main"
    assert page.by_id("main").name == "main"


def test_the_language_is_stated_and_the_page_fits_a_phone(page: Element) -> None:
    assert page.all("html")[0].attributes["lang"] == "en"
    assert any(one.attributes.get("name") == "viewport" for one in page.all("meta"))
