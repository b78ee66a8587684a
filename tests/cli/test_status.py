"""`uclearn status`."""

from __future__ import annotations

from tests.cli.terminal import Uclearn


def test_no_journal_no_status(uclearn: Uclearn) -> None:
    said = uclearn("status", "nowhere")
    assert said.code == 1
    assert "There is no journal in nowhere. `uclearn learn` begins one." in said.err
