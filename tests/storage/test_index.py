"""The index of a folder of runs: it saves time, and nothing else ever depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storage.test_records import CONFIG, begun, finished
from uclearn.storage import index
from uclearn.storage.index import INDEX_NAME, outlines
from uclearn.storage.records import FORMAT, Run
from uclearn.storage.sealed import append_sealed, write_sealed


@pytest.fixture(autouse=True)
def _few_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WORTH_IT", 2)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: one complete, two open."""
    finished(tmp_path / "done")
    begun(tmp_path / "open")
    (tmp_path / "sealed").mkdir()
    head = {"format": FORMAT, "schema": 2, "environment": {}}
    write_sealed(tmp_path / "sealed" / "config.json", {**head, "config": {**CONFIG, "seed": 7}})
    append_sealed(tmp_path / "sealed" / "events.jsonl", {"schema": 2, "event": "evaluation"})
    return tmp_path


class Reader:
    """Outlines, and which runs had to be read for them."""

    def __init__(self, folder: Path, kind: str = "seeds") -> None:
        self.read: list[str] = []
        self.found, self.damaged = outlines(folder, self._outline, kind)

    def _outline(self, run: Run) -> dict[str, Any]:
        self.read.append(run.folder.name)
        return {"seed": run.config["seed"], "events": len(run.events)}


ALL = ["done", "open", "sealed"]


def test_what_was_read_is_not_read_again(runs: Path) -> None:
    first, second = Reader(runs), Reader(runs)
    assert (first.read, second.read) == (ALL, [])
    assert second.found == first.found
    assert dict(first.found)[runs / "sealed"] == {"seed": 7, "events": 1}


@pytest.mark.parametrize("name", ["config.json", "events.jsonl"])
def test_wherever_a_bit_flips_the_index_does_not_hide_it(runs: Path, name: str) -> None:
    Reader(runs)
    path = runs / "sealed" / name
    sound = path.read_bytes()
    for place in range(0, len(sound), 3):
        data = bytearray(sound)
        data[place] ^= 1
        path.write_bytes(data)
        with_index = Reader(runs)
        (runs / INDEX_NAME).unlink()
        without = Reader(runs)
        assert (with_index.found, with_index.damaged) == (without.found, without.damaged), place


def test_a_run_that_goes_on_is_read_anew(runs: Path) -> None:
    Reader(runs)
    append_sealed(runs / "sealed" / "events.jsonl", {"schema": 2, "event": "evaluation"})
    again = Reader(runs)
    assert again.read == ["sealed"]
    assert dict(again.found)[runs / "sealed"]["events"] == 2


def test_runs_that_changed_places_are_told_apart(runs: Path) -> None:
    Reader(runs)
    (runs / "done").rename(runs / "aside")
    (runs / "sealed").rename(runs / "done")
    (runs / "aside").rename(runs / "sealed")
    again = Reader(runs)
    assert again.read == []  # the bytes are known, wherever they lie
    assert dict(again.found)[runs / "done"]["seed"] == 7


@pytest.mark.parametrize("spoil", ["delete", "cut", "flip", "kind", "folder"])
def test_without_a_sound_index_everything_is_read(runs: Path, spoil: str) -> None:
    first, path = Reader(runs), runs / INDEX_NAME
    data = path.read_bytes()
    kind = "seeds"
    if spoil == "cut":
        path.write_bytes(data[:-9])
    elif spoil == "flip":
        path.write_bytes(data.replace(b'"seed": 7', b'"seed": 8'))
    elif spoil == "kind":
        kind = "something else"
    else:
        path.unlink()
        if spoil == "folder":
            path.mkdir()
    again = Reader(runs, kind)
    assert again.read == ALL
    assert again.found == first.found


def test_what_is_gone_leaves_the_index(runs: Path) -> None:
    Reader(runs)
    large = (runs / INDEX_NAME).stat().st_size
    (runs / "open" / "config.json").unlink()
    Reader(runs)
    assert (runs / INDEX_NAME).stat().st_size < large
    assert Reader(runs).read == []


def test_few_runs_have_no_index(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WORTH_IT", 4)
    assert Reader(runs).found
    assert not (runs / INDEX_NAME).exists()


def test_a_run_that_changes_while_it_is_read_is_not_remembered(runs: Path) -> None:
    def outline(run: Run) -> dict[str, Any]:
        if run.folder.name == "sealed":
            append_sealed(run.folder / "events.jsonl", {"schema": 2, "event": "evaluation"})
        return {"events": len(run.events)}

    outlines(runs, outline, "seeds")
    assert Reader(runs).read == ["sealed"]
