"""`uclearn report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn, run_small


def test_the_report_is_written(uclearn: Uclearn) -> None:
    pytest.importorskip("plotly")
    run_small(uclearn, "--quiet")
    assert uclearn("report", "runs", "-o", "page.html").code == 0
    assert "<html" in Path("page.html").read_text()
    assert uclearn("report", "runs", "-o", "paper/", "--label", "UCL=Ours").code == 0
    (table,) = Path("paper/tables").glob("*-numbers.tex")
    assert "Ours & " in table.read_text()
    code, _, err = uclearn("report", "runs", "-o", "page.pdf")
    assert code == 1
    assert "`-o paper` writes every figure as a PDF" in " ".join(err.split())
    code, _, err = uclearn("report", "runs", "--label", "Ours")
    assert code == 1
    assert "`--label` must be OLD=NEW" in err
