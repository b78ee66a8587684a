"""A session killed with SIGKILL at any moment ends bit for bit like one never interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.small import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_session_ends_as_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.harness", name, str(tmp_path), "7"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] >= 1
    assert told["killed"]["state"] == told["calm"]["state"]
    assert told["killed"]["matrix"] == told["calm"]["matrix"]
    assert told["killed"]["events"] == told["calm"]["events"]
