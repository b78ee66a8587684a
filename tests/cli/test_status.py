"""`uclearn status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.months import FAST, teach
from tests.cli.terminal import Uclearn
from uclearn.live.journal import begin, settle


def test_no_journal_no_status(uclearn: Uclearn) -> None:
    said = uclearn("status", "nowhere")
    assert said.code == 1
    assert "There is no journal in nowhere. `uclearn learn` begins one." in said.err


@pytest.mark.usefixtures("months")
def test_an_update_that_did_not_end_is_told_and_not_counted(uclearn: Uclearn) -> None:
    teach(uclearn, "january", *FAST)
    begin(Path("m"), 2, "february", "february")
    said = uclearn("status", "m")
    assert "1 kept, " not in said.out
    assert "february was begun at " in said.out
    assert "and has not ended: it is being learned, or was interrupted" in said.out
    settle(Path("m"))
    said = uclearn("status", "m")
    assert "m: 1 updates, 1 kept, 1 interrupted" in said.out
    assert "february interrupted: begun at " in said.out
    said = uclearn("status", "m", "--json")
    events = [json.loads(line)["event"] for line in said.out.splitlines()]
    assert events == ["update", "interrupted", "capacity"]
