"""`uclearn doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn, run_small
from uclearn.cli.printing import print_table
from uclearn.storage.records import find_runs


@pytest.mark.slow
def test_the_doctor_finds_a_damaged_checkpoint(uclearn: Uclearn) -> None:
    run_small(uclearn, "--quiet")
    said = uclearn("doctor", "runs", "--data", "nowhere")
    assert said.code == 0
    assert "acts, and holds what it has learned" in said.out
    assert "auto is " in said.out  # bfloat16 or float32, as this machine is
    (folder,) = find_runs(Path("runs"))
    (folder / "checkpoint.safetensors").write_bytes(b"torn")
    said = uclearn("doctor", "runs", "--data", "nowhere")
    assert said.code == 1
    assert "WRONG" in said.out
    assert said.err.startswith("Wrong: ")


def test_brackets_in_what_is_found_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("what", "detail"), [("report", "pip install 'uclearn[report]'")])
    assert "uclearn[report]" in capsys.readouterr().out
