"""Every Python example in README and docs runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from uclearn.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(
        block,
        id=f"{page.name}-{number}",
        marks=[pytest.mark.rl] if page.name == "rl.md" else [],
    )
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert block.strip()
    exec(compile(block, "example", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    commands = getattr(typer.main.get_command(app), "commands", {})
    assert len(commands) > 10
    missing = [name for name in commands if f"`uclearn {name}" not in page]
    assert not missing
