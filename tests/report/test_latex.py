"""Tables for a paper keep what they say."""

from __future__ import annotations

import csv
import io

from uclearn.report.latex import Cells, comma_separated, latex

HOSTILE = Cells(
    r"50 % of \all",
    ["a_b", "x & y", "±"],
    [["{1}", "σ² → −3", 'said "so", twice'], ["–", "$", "#"]],
)


def test_signs_that_mean_something_to_latex_are_only_signs() -> None:
    text = latex(HOSTILE, "hostile")
    assert r"\caption{50 \% of \textbackslash{}all}" in text
    assert r"a\_b & x \& y & $\pm$ \\" in text
    assert r"\{1\} & $\sigma$$^2$ $\to$ $-$3 & " in text
    assert r"-- & \$ & \# \\" in text
    assert text.isascii()


def test_csv_is_read_back_as_it_was() -> None:
    head, *rows = csv.reader(io.StringIO(comma_separated(HOSTILE)))
    assert (head, rows) == (HOSTILE.header, HOSTILE.rows)
