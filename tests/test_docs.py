"""Every Python example in README, docs and notebooks runs; every link leads somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from docs.hooks.execute import NOTEBOOKS, printed_by
from uclearn.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
ONE_STORY = ["tutorial.md"]
"""Pages whose blocks build on each other."""


def blocks_of(page: Path) -> list[str]:
    found = FENCE.findall(page.read_text())
    return ["\n".join(found)] if page.name in ONE_STORY else found


BLOCKS = [
    pytest.param(
        block,
        id=f"{page.relative_to(ROOT)}-{number}",
        marks=[pytest.mark.rl] if page.name == "rl.md" else [],
    )
    for page in PAGES
    for number, block in enumerate(blocks_of(page))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert block.strip()
    exec(compile(block, "example", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_they_print(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for cell, printed in printed_by(json.loads(path.read_text())):
        kept = "".join(line for output in cell["outputs"] for line in output["text"])
        # numbers differ a little from machine to machine
        assert kept.count("\n") == printed.count("\n"), "python -m docs.hooks.execute"


def test_there_are_three_notebooks() -> None:
    assert len(list(NOTEBOOKS.glob("*.ipynb"))) == 3


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    commands = getattr(typer.main.get_command(app), "commands", {})
    assert len(commands) > 10
    missing = [name for name in commands if f"`uclearn {name}" not in page]
    assert not missing


LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "RESULTS.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    places = [link for link in LINK.findall(text) if "://" not in link]
    for place in places:
        file, _, heading = place.partition("#")
        target = ROOT / file if file else ROOT / name
        assert target.exists(), place
        if heading and target.suffix == ".md":
            assert heading in headings(target), place


def headings(page: Path) -> set[str]:
    """Their anchors, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
