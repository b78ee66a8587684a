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
