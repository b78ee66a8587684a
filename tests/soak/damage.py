"""Files damaged at random, one at a time, and what every reader makes of them: it must name the
damage, or say what it said before."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz.playground import template
from uclearn.errors import UclearnError
from uclearn.live.folder import FORMAT, check_version
from uclearn.live.journal import read_journal
from uclearn.report.markdown import markdown
from uclearn.storage.checkpoint import load_latest
from uclearn.storage.container import take_apart
from uclearn.storage.index import outlines
from uclearn.storage.records import Run, read_run, read_runs

_MAY_BE_GONE = ("events.jsonl",)
"""Of a complete run the summary alone may have been kept."""
WAYS = ("bit", "byte", "cut", "zeros", "line gone", "line twice", "lines swapped", "empty", "gone")
Reader = Callable[[Path], Any]


def spoiled(data: bytes, way: str, chance: random.Random) -> bytes | None:
    """The contents of a file after an accident; None: it is gone."""
    if way == "gone":
        return None
    if way == "empty" or not data:
        return b""
    place = chance.randrange(len(data))
    if way == "bit":
        return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
    if way == "byte":
        return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    if way == "cut":
        return data[:place]
    if way == "zeros":
        length = min(chance.choice((1, 16, 512)), len(data) - place)
        return data[:place] + bytes(length) + data[place + length :]
    lines = data.splitlines(keepends=True)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    if way == "line gone":
        del lines[first]
    elif way == "line twice":
        lines.insert(first, lines[first])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def _listed(folder: Path) -> Any:
    found, damaged = outlines(folder, _outline, "soak")
    _say(damaged)
    return found


def _outline(run: Run) -> dict[str, Any]:
    return {
        "config": dict(run.config),
        "summary": None if run.summary is None else vars(run.summary),
    }


def _everything(folder: Path) -> Any:
    found, damaged = read_runs(folder)
    _say(damaged)
    return [(run.folder, run.config, run.summary, run.events) for run in found]


def _say(damaged: list[tuple[Path, str]]) -> None:
    if damaged:
        raise UclearnError(damaged[0][1])


def _tables(folder: Path) -> Any:
    text = markdown([folder])
    if "amaged and left out" in text:
        raise UclearnError(text)
    return text


def _goes_on(folder: Path) -> Any:
    """What `resume` and doctor read of a run that is open."""
    read_run(folder / "open")
    return _state(folder / "open", "session")


def _model(folder: Path) -> Any:
    check_version(folder)
    return _state(folder, FORMAT)


def _state(folder: Path, kind: str) -> Any:
    state, note = load_latest(folder, kind)
    if note:
        raise UclearnError(note)
    skeleton, tensors = take_apart(state)
    return skeleton, {name: value.tolist() for name, value in tensors.items()}


READERS: dict[str, dict[str, Reader]] = {
    "runs": {"runs": _listed, "records": _everything, "report": _tables, "resume": _goes_on},
    "model": {"status": read_journal, "predict": _model},
}


def damage(folder: Path, chance: random.Random, times: int) -> tuple[Counter[str], list[str]]:
    """How often damage was named, or changed nothing; and every case in which it was neither."""
    found, lost = Counter[str](), list[str]()
    for name in READERS:
        place = folder / name
        shutil.copytree(template() / name, place)
        for damaged in place.glob("damaged-*"):
            shutil.rmtree(damaged)
    before = {
        name: {reader: look(folder / name) for reader, look in readers.items()}
        for name, readers in READERS.items()
    }
    files = [p for name in READERS for p in (folder / name).rglob("*") if p.is_file()]
    for _ in range(times):
        path, way = chance.choice(files), chance.choice(WAYS)
        if way == "gone" and path.name in _MAY_BE_GONE:
            continue
        with suppress(FileNotFoundError):  # the index, which readers write
            data = path.read_bytes()
            _one(folder, path, way, spoiled(data, way, chance), before, found, lost)
            path.write_bytes(data)
    return found, lost


def _one(
    folder: Path,
    path: Path,
    way: str,
    contents: bytes | None,
    before: dict[str, dict[str, Any]],
    found: Counter[str],
    lost: list[str],
) -> None:
    """One file damaged in one way, looked at by every reader of its folder."""
    if contents is None:
        path.unlink()
    else:
        path.write_bytes(contents)
    name = path.relative_to(folder).parts[0]
    for reader, look in READERS[name].items():
        case = f"{reader}: {path.relative_to(folder)}, {way}"
        try:
            now = look(folder / name)
        except UclearnError:
            found["named"] += 1
        except Exception as error:
            lost.append(f"{case}: {error!r}")
        else:
            if now == before[name][reader]:
                found["harmless"] += 1
            elif _lacks_a_tail(reader, now, before[name][reader]):
                found["shorter"] += 1
            else:
                lost.append(f"{case}: said otherwise")


def _lacks_a_tail(reader: str, now: Any, before: Any) -> bool:
    """Of a file that still grows the last lines may be missing, as if they had not been written
    yet: resume and learn go by the checkpoint, which knows how many there were."""
    if reader == "status":
        return bool(now == before[: len(now)])
    return reader == "records" and all(
        run[:3] == then[:3]
        and (run[3] == then[3] or (run[2] is None and run[3] == then[3][: len(run[3])]))
        for run, then in zip(now, before, strict=True)
    )
