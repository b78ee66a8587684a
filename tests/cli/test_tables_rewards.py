"""The table of returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.small import placed
from tests.runs.test_rl import quick, rewards_of
from uclearn.cli.tables import rewards_table
from uclearn.runs.grid import run_all
from uclearn.storage.records import read_run


@pytest.mark.rl
def test_the_table_has_the_returns_of_the_last_evaluation(tmp_path: Path) -> None:
    config = quick("ewc")
    results = run_all(placed([config], tmp_path), workers=1)
    last = rewards_of(results[0])["returns"][-1]
    table = rewards_table(results)
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells[1:3] == [f"{value:.0f}" for value in last]
    events = read_run(results[0].folder).events
    assert [event["event"] for event in events].count("evaluation") == 4
