"""The table of returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.small import placed
from tests.runs.test_rl import quick, rewards_of
from uclearn.cli.tables import rewards_table
from uclearn.runs.grid import run_all
from uclearn.runs.rl import with_references
from uclearn.storage.records import read_run


@pytest.mark.rl
def test_the_table_has_the_returns_of_the_last_evaluation(tmp_path: Path) -> None:
    configs = with_references([quick("ewc"), quick("ewc")])
    assert [config.benchmark for config in configs] == ["classic", *quick().environments()]
    results = run_all(placed(configs, tmp_path), workers=1)
    found, *alone = [rewards_of(result) for result in results]
    last = found["returns"][-1]
    table = rewards_table(results)
    ewc, lowest, highest = zip(*(column.cells for column in table.columns), strict=True)
    assert list(ewc[1:3]) == [f"{value:.0f}" for value in last]
    assert list(lowest[1:3]) == [f"{one['random'][0]:.0f}" for one in alone]
    best = [max(returns[0] for returns in one["returns"]) for one in alone]
    assert list(highest[1:3]) == [f"{value:.0f}" for value in best]
    scales = [
        (value - one["random"][0], top - one["random"][0])
        for value, one, top in zip(last, alone, best, strict=True)
    ]
    total = sum(gained / width for gained, width in scales if width > 0)
    assert ewc[3] == f"{total:.2f}"
    events = read_run(results[0].folder).events
    assert [event["event"] for event in events].count("evaluation") == 4
