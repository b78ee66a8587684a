from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from uclearn.errors import DataError
from uclearn.storage.files import StorageError
from uclearn.storage.mirror import FILES, Mirror, is_url

URL = "memory://bucket/runs"


@pytest.fixture
def two_machines(tmp_path: Path) -> Iterator[tuple[Mirror, Mirror]]:
    """Two mirrors of one URL, each with its own disk."""
    yield Mirror(URL, tmp_path / "one"), Mirror(URL, tmp_path / "two")
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def write(mirror: Mirror, name: str, **files: str) -> Path:
    folder = mirror.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / {Path(f).stem: f for f in FILES}[file]).write_text(text)
    return folder


def test_what_one_machine_sends_another_fetches(two_machines: tuple[Mirror, Mirror]) -> None:
    one, two = two_machines
    write(one, "a/seed-0", config="1", events="2", checkpoint="3", summary="4")
    one.send("a/seed-0")
    assert two.is_done("a/seed-0")
    assert two.fetch("a/seed-0")
    assert [(two.folder / "a/seed-0" / file).read_text() for file in FILES] == ["1", "2", "3", "4"]


def test_what_is_kept_replaces_what_an_earlier_attempt_left(
    two_machines: tuple[Mirror, Mirror],
) -> None:
    one, two = two_machines
    stale = write(two, "run", config="old", events="old", checkpoint="old")
    write(one, "run", config="new", events="new")
    one.send("run")
    two.fetch("run")
    left = {path.name: path.read_text() for path in stale.iterdir()}
    assert left == {"config.json": "new", "events.jsonl": "new"}


def test_where_nothing_is_kept_the_copy_stays(two_machines: tuple[Mirror, Mirror]) -> None:
    one, _ = two_machines
    folder = write(one, "run", config="mine")
    assert not one.fetch("run")
    assert not one.is_done("run")
    assert (folder / "config.json").read_text() == "mine"
    one.send("run")


def test_the_summary_is_sent_last_so_that_half_a_run_is_never_done(
    two_machines: tuple[Mirror, Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = two_machines
    write(one, "run", config="1", events="2", checkpoint="3", summary="4")
    files = fsspec.filesystem("memory")
    send = files.put_file

    def breaks(source: str, target: str) -> None:
        if target.endswith("checkpoint.safetensors"):
            raise OSError("the network is gone")
        send(source, target)

    monkeypatch.setattr(one._files, "put_file", breaks)
    with pytest.raises(
        StorageError, match=r"Could not send run at memory://bucket/runs: the network is gone\. "
    ):
        one.send("run")
    assert not two.is_done("run")
    assert two.fetch("run")


def test_what_cannot_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [is_url(place) for place in ("runs", "./a:b", "gs://x", "C:/runs")] == [
        False,
        False,
        True,
        False,
    ]
    with pytest.raises(DataError, match=r"Runs cannot be kept at nowhere://x: Protocol not known"):
        Mirror("nowhere://x", tmp_path)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(DataError, match=r'pip install "uclearn\[cluster\]"'):
        Mirror(URL, tmp_path)
