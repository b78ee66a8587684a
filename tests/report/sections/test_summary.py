"""The summary, in words."""

from __future__ import annotations

from tests.report.pages import Element, section_of


def test_the_summary_says_in_plain_words_what_is_kept(page: Element) -> None:
    """From the matrices: task j of 5 keeps learns - forgets * (4 - j), on average 2 forgets less,
    0.97 - 0.06, 0.95 - 0.12 and 0.97 - 0.28."""
    summary = section_of(page, "summary").text
    assert "UCL keeps 91 %, EWC 83 %, fine-tuning 69 %." in summary
    assert "UCL is 8.0 points ahead of EWC: with 95 % confidence" in summary
