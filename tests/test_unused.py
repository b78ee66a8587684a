"""The check that nothing is there for the tests alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks.unused import unused


def test_the_package_offers_nothing_that_only_tests_use() -> None:
    assert unused() == []


def test_planted_names_are_found(tmp_path: Path) -> None:
    package = tmp_path / "src" / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from toy.a import planted, used\n")
    (package / "a.py").write_text(
        "LIMIT = 3\n"
        "def used(): return 1\n"
        "def planted(n): return planted(n - 1)\n"
        "def documented(): ...\n"
        "def _private(): ...\n"
        "@app.command()\n"
        "def run(): ...\n"
        "class Kept:\n"
        "    def __init__(self): self.known()\n"
        "    def known(self): ...\n"
        "    def lost(self): ...\n"
        "class Located: ...\n"
    )
    (package / "b.py").write_text(
        "from toy import used\nfrom toy.a import Kept\nPLACE = 'toy.a:Located'\nprint(PLACE)\n"
    )
    (tmp_path / "README.md").write_text("Call `documented()`. Words such as planted are no code.")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from toy.a import planted, LIMIT\nplanted(1)\n")
    assert [(found.name, found.line) for found in unused(tmp_path)] == [
        ("LIMIT", 1),
        ("planted", 3),
        ("lost", 11),
    ]
