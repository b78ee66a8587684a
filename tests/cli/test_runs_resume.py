"""`uclearn resume`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.terminal import Uclearn, run_small
from uclearn.storage.records import find_runs


def test_resume_goes_on_with_what_is_open(uclearn: Uclearn) -> None:
    run_small(uclearn, "--quiet")
    assert (
        "Every run in runs is complete; there is nothing to resume."
        in uclearn("resume", "runs").out
    )
    (folder,) = find_runs(Path("runs"))
    before = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").unlink()
    assert uclearn("resume", str(folder)).code == 0
    after = json.loads((folder / "summary.json").read_text())
    assert after["accuracy_matrix"] == before["accuracy_matrix"]
