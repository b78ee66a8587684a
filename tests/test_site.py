"""The documentation as a site: it builds, nothing in it is fetched, all names are in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import uclearn

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All pages by their names. A broken link, an unknown anchor, a page that is in no menu or a
    name that is not in the code ends the building."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    made = subprocess.run(
        [*command, str(place)], cwd=ROOT, env=surroundings, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return {str(page.relative_to(place)): page.read_text() for page in place.rglob("*.html")}


def test_pages_need_nothing_from_elsewhere(site: dict[str, str]) -> None:
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)")
    for name, page in site.items():
        assert not loaded.findall(page), name


def test_formulas_are_drawn_without_a_script(site: dict[str, str]) -> None:
    assert site["mathematics.html"].count("<math") >= 40
    for name, page in site.items():
        assert "arithmatex" not in page, name


@pytest.mark.parametrize("name", [name for name in uclearn.__all__ if name != "__version__"])
def test_every_name_at_the_top_is_in_the_reference(site: dict[str, str], name: str) -> None:
    assert f'id="uclearn.{name}"' in "".join(
        page for place, page in site.items() if place.startswith("api/")
    )


def test_examples_in_docstrings_are_code(site: dict[str, str]) -> None:
    assert "highlight" in site["api/live.html"]
    for name, page in site.items():
        assert not re.search(r"<blockquote>\s*(?:<[^>]*>\s*)*&gt;", page), name


def test_notebooks_are_pages_with_their_output(site: dict[str, str]) -> None:
    assert "after task 3:" in site["notebooks/own-loop.html"]
    assert 'href="own-loop.ipynb"' in site["notebooks/own-loop.html"]
