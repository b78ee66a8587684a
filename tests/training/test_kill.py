"""A session killed with SIGKILL at any moment ends bit for bit like one never interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.small import NAMES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("names", [NAMES[::2], NAMES[1::2]], ids="+".join)
def test_a_killed_session_ends_as_an_undisturbed_one(names: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.harness", str(tmp_path), "7", *names],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert list(told) == names
    for name, ended in told.items():
        assert ended["kills"] >= 2, name
        assert ended["killed"] == ended["calm"], name
