"""What a careless or hostile hand may type is one line and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn

LONG = "x" * 5000
LEARN = ("learn", "m", "--label", "fault", "--name", "a")


@pytest.fixture(autouse=True)
def _files(uclearn: Uclearn) -> None:
    """Files that no command can use; `uclearn` has gone to an empty folder."""
    rows = "".join(f"{i},{2 * i},{'ok' if i % 2 else 'worn'}\n" for i in range(40))
    Path("sound.csv").write_text("a,b,fault\n" + rows)
    Path("latin.csv").write_bytes("a,b,fault\n1,2,\xe4\n3,4,ok\n".encode("latin-1"))
    Path("wide.csv").write_text(f"a,b,fault\n1,2,{'x' * 200_000}\n3,4,ok\n")
    Path("deep.toml").write_text(f"a = {'[' * 5000}{']' * 5000}\n")
    Path("folder.csv").mkdir()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*LEARN, "--data", "sound.csv", "--method", "hat"), "must be told its setting 'tasks'"),
        ((*LEARN, "--data", "latin.csv"), "latin.csv: expected text in UTF-8"),
        ((*LEARN, "--data", "wide.csv"), "wide.csv: expected a CSV file (field larger"),
        (("learn", "m", "--name", "a", "--data", "folder.csv"), "expected folders of pictures"),
        ((*LEARN, "--data", "folder.csv"), "`--label` says nothing about folder.csv (pictures)"),
        (("run", "split-digits", "--config", "deep.toml"), "deep.toml is not TOML"),
        (("runs", LONG), "File name too long: "),
        (("status", LONG), "File name too long: "),
        (("report", LONG), "File name too long: "),
        (("learn", LONG, "--data", "sound.csv", "--name", "a"), "File name too long: "),
        (("runs", "\udcff"), "must be a folder"),
    ],
)
def test_it_is_refused_in_a_line(uclearn: Uclearn, words: tuple[str, ...], told: str) -> None:
    said = uclearn(*words)
    assert said.code == 1
    assert told in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < 500
