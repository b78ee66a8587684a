"""What a careless or hostile hand may type is one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.terminal import Uclearn

LONG = "x" * 5000
LONGEST = 10_000
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
    Path("loop").symlink_to("loop")
    Path("nul.toml").write_text('benchmark = "a\\u0000b/c"\n')
    Path("deep.json").write_text("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*LEARN, "--data", "sound.csv", "--method", "hat"), "must be told its setting 'tasks'"),
        ((*LEARN, "--data", "latin.csv"), "latin.csv: expected text in UTF-8"),
        ((*LEARN, "--data", "wide.csv"), "wide.csv: expected a CSV file (field larger"),
        (("learn", "m", "--name", "a", "--data", "folder.csv"), "expected folders of pictures"),
        ((*LEARN, "--data", "folder.csv"), "`--label` says nothing about folder.csv (pictures)"),
        ((*LEARN[:2], "--name", "a", "--data", "folder.csv", "--size", "5000"), "at most 4096"),
        (("run", "split-digits", "--config", "deep.toml"), "deep.toml is not TOML"),
        (("runs", LONG), "File name too long: "),
        (("status", LONG), "File name too long: "),
        (("report", LONG), "File name too long: "),
        (("learn", LONG, "--data", "sound.csv", "--name", "a"), "File name too long: "),
        (("runs", "\udcff"), "must be a folder"),
        (("run", "--config", "deep.json"), "deep.json is not valid JSON: maximum recursion"),
        (("run", "--config", "nul.toml"), "expected the path of data of your own, found none"),
        (("presets", "loop", "--grey"), "'loop': expected the path of data of your own"),
        (("data", "--data", "~nobody-of-that-name"), "no home folder is known for what follows"),
        (("presets", "~nobody-of-that-name"), "no home folder is known for what follows"),
        (("presets", "--method", "x y " * 3000), "x y x y"),
    ],
)
def test_it_is_refused_in_a_line(uclearn: Uclearn, words: tuple[str, ...], told: str) -> None:
    said = uclearn(*words)
    assert said.code == 1
    assert told in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < (2500 if len(words[-1]) > LONGEST else 500)


def test_asking_for_more_memory_than_there_is_is_a_line(
    uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def much(*_: object, **__: object) -> None:
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr("uclearn.tasks.own.source.own_data", much)
    said = uclearn("presets", "sound.csv")
    assert said.code == 1
    assert said.err.startswith("Error: This takes more memory than there is. Ask for less")


def test_a_full_disk_behind_the_output_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "uclearn", "--version"], stdout=full, stderr=subprocess.PIPE
        )
    assert (ended.returncode, ended.stderr) == (1, b"Error: No space left on device.\n")


def test_nobody_is_told_when_the_reader_has_gone() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "uclearn", "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 1)
