"""`uclearn benchmarks` and `uclearn data`."""

from __future__ import annotations

import pytest

from tests.cli.terminal import Uclearn
from uclearn.tasks.benchmarks import BENCHMARKS


@pytest.mark.slow
def test_benchmarks_and_data_are_listed(uclearn: Uclearn) -> None:
    said = uclearn("benchmarks")
    assert all(name in said.out for name in BENCHMARKS)
    states = {str(line["name"]): line["state"] for line in uclearn("data", "--json").lines()}
    assert "mnist" in states
    nowhere = uclearn("data", "--data", "nowhere", "--json").lines()
    assert {line["state"] for line in nowhere} == {"missing"}
