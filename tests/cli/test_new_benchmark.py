"""The package that `uclearn new-benchmark` writes is one that can be installed and run."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn


@pytest.mark.slow
def test_what_is_written_is_a_benchmark_once_installed(uclearn: Uclearn, tmp_path: Path) -> None:
    assert uclearn("new-benchmark", "my-tasks").code == 0
    project = tomllib.loads(Path("my-tasks/pyproject.toml").read_text())
    entry = project["project"]["entry-points"]["uclearn.benchmarks"]
    assert entry == {"my-tasks": "my_tasks:BENCHMARK"}
    # installed as an installer does it: the module, and the announcement beside it
    site = tmp_path / "site"
    about = site / "my_tasks-0.1.0.dist-info"
    about.mkdir(parents=True)
    (site / "my_tasks.py").write_bytes(Path("my-tasks/my_tasks.py").read_bytes())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tasks\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(
        f"[uclearn.benchmarks]\nmy-tasks = {entry['my-tasks']}\n"
    )
    assert importlib.metadata.Distribution.at(about).name == "my-tasks"
    paths = os.pathsep.join([str(site), *filter(None, sys.path)])
    said = subprocess.run(
        [sys.executable, "-m", "uclearn", "run", "my-tasks", "--method", "finetuning", "--json"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert '"average_accuracy"' in said.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [("My Tasks", "small letters"), ("split-digits", "there is a benchmark 'split-digits'")],
)
def test_names_that_cannot_be(uclearn: Uclearn, name: str, words: str) -> None:
    said = uclearn("new-benchmark", name)
    assert said.code == 1
    assert words in said.err
    assert not Path(name).exists()


def test_nothing_is_overwritten(uclearn: Uclearn) -> None:
    assert uclearn("new-benchmark", "mine").code == 0
    Path("mine/mine.py").write_text("# changed")
    said = uclearn("new-benchmark", "mine")
    assert said.code == 1
    assert "is there already" in said.err
    assert Path("mine/mine.py").read_text() == "# changed"
