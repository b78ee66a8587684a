"""The terminal that the tests of commands type into."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.months import write
from tests.cli.terminal import Said, Uclearn
from uclearn.cli.app import main


@pytest.fixture
def uclearn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Uclearn:
    """Type a command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        shown = capfd.readouterr()
        return Said(int(leaving.value.code or 0), shown.out, shown.err)

    return typed


@pytest.fixture
def months(tmp_path: Path) -> None:
    """Three months of data lie in the folder."""
    for number, name in enumerate(["january", "february", "march"]):
        write(tmp_path / f"{name}.csv", number)
