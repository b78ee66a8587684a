"""A folder with something of every kind that a command reads: sound, odd and broken."""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.runs.small import run, small
from uclearn.live.learner import Learner
from uclearn.live.reading import read_table
from uclearn.live.table import Knows, as_update
from uclearn.networks import mlp
from uclearn.session import StoppedError
from uclearn.tasks.own.source import Asked
from uclearn.training import Plan

DAMAGED = "damaged"
"""In the name of every run and model that is damaged from the beginning."""


class Playground:
    """A folder to be spoiled, and what it should hold. Most commands change nothing, so it is made
    again only where one did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: Snapshot = ()

    def restored(self) -> Path:
        """The folder as it should be; deep enough that `../..` leads nowhere else."""
        if not self._made or self.changed():
            shutil.rmtree(self.top, ignore_errors=True)
            shutil.copytree(template(), self.folder, symlinks=True)
            self._made = snapshot(self.top)
        return self.folder

    def changed(self) -> bool:
        """Whether anything below `top` is not as it was made."""
        return snapshot(self.top) != self._made

    @property
    def top(self) -> Path:
        """Above which nothing may be touched."""
        return self.folder.parents[3]


@functools.cache
def ground() -> Playground:
    """The one of this process."""
    return Playground(_temporary("uclearn-fuzz-") / "top" / "a" / "b" / "c" / "d")


@functools.cache
def template() -> Path:
    """What it is copied from."""
    folder = _temporary("uclearn-playground-")
    for lay in (_tables, _arrays, _pictures, _settings, _runs, _models):
        lay(folder)
    return folder


Snapshot = tuple[tuple[str, int, int, int], ...]


def snapshot(folder: Path) -> Snapshot:
    """What lies below a folder: names, and what changes whenever a file does."""
    found = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            seen = path.lstat()
            found.append((str(path), seen.st_ino, seen.st_size, seen.st_ctime_ns))
    return tuple(sorted(found))


def _temporary(prefix: str) -> Path:
    kept = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    _alive.append(kept)
    return Path(kept.name)


_alive: list[tempfile.TemporaryDirectory[str]] = []


def names() -> list[str]:
    """What lies there, as it may be typed."""
    top = template()
    found = [path for path in top.rglob("*") if len(path.relative_to(top).parts) < 3]
    return sorted(str(path.relative_to(top)) for path in found)


def _tables(folder: Path) -> None:
    rows = "".join(f"{i},{2 * i},{'ok' if i % 2 else 'worn'}\n" for i in range(40))
    thrice = "".join(f"{i},{i % 3},{i % 2},{'xyz'[i % 3]}\n" for i in range(60))
    gaps = "".join(
        f"{i if i % 5 else ''},{'red' if i % 3 else 'blue'},{i % 2}\n" for i in range(40)
    )
    texts = {
        "sound.csv": f"a,b,fault\n{rows}",
        "tasks.csv": f"a,b,label,task\n{thrice}",
        "gaps.csv": f"a,colour,label\n{gaps}",
        "wide.csv": f"a,b,label\n1,2,{'x' * 200_000}\n3,4,ok\n",
        "empty.csv": "",
        "header.csv": "a,b,label\n",
        "ragged.csv": "a,b,label\n1,2,x\n3,4\n5,6,7,8\n",
        "nul.csv": "a,b,label\n1,\x00,x\n3,4,y\n",
        "twice.csv": "a,a,label\n1,2,x\n3,4,y\n",
        "odd.csv": "a,b,label\nnan,inf,x\n-inf,1e400,y\n1e-400,0x10,x\n",
        "one.csv": "label\nx\ny\n",
        "quotes.csv": 'a,b,label\n"1,2,x\n3,4,y\n',
        "[glob]*?.csv": f"a,b,fault\n{rows}",
        "plain.txt": "some words\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("a,b,label\n1,2,\xe4\n3,4,ok\n".encode("latin-1"))
    (folder / "utf16.csv").write_text("a,b,label\n1,2,x\n3,4,y\n", encoding="utf-16")
    (folder / "bom.csv").write_text(f"a,b,label\n{rows}", encoding="utf-8-sig")
    (folder / "folder.csv").mkdir()
    (folder / "folder.npz").mkdir()
    (folder / "folder.toml").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")


def _arrays(folder: Path) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(40, 6)), np.arange(40) % 4
    arrays: dict[str, dict[str, Any]] = {
        "sound": {"x": x, "y": y},
        "pixels": {"x": (255 * draw.random((40, 8, 8))).astype(np.uint8), "y": y},
        "no-labels": {"x": x},
        "no-rows": {"x": x[:0], "y": y[:0]},
        "scalar": {"x": np.float64(1), "y": np.int64(1)},
        "complex": {"x": x + 1j, "y": y},
        "nan": {"x": np.full((40, 6), np.nan), "y": y},
        "words": {"x": x, "y": np.array(["a", "b", "c", "d"])[y]},
        "negative": {"x": x, "y": y - 7},
        "uneven": {"x": x, "y": y[:7]},
        "deep": {"x": draw.normal(size=(40, 2, 2, 2, 2)), "y": y},
    }
    for name, parts in arrays.items():
        np.savez(folder / f"{name}.npz", **parts)
    np.savez(folder / "objects.npz", x=np.array([{"a": 1}], dtype=object), y=y[:1])
    (folder / "broken.npz").write_bytes((folder / "sound.npz").read_bytes()[:200])
    (folder / "no.npz").write_bytes(b"nothing of the kind")
    (folder / "no.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")


def _pictures(folder: Path) -> None:
    for label in ("cat", "dog"):
        for place in ("pictures", "broken-pictures"):
            (folder / place / label).mkdir(parents=True)
            for k in range(8):
                shade = 20 * k + (100 if label == "cat" else 0)
                Image.new("RGB", (9, 7), (shade, 0, 255 - shade)).save(
                    folder / place / label / f"{k}.png"
                )
    (folder / "broken-pictures" / "dog" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n rest")
    (folder / "no-pictures" / "cat").mkdir(parents=True)


def _settings(folder: Path) -> None:
    texts = {
        "sound.toml": 'benchmark = "split-digits"\ntasks = 1\n[plan]\nepochs = 1\n[network]\n'
        "hidden = [8]\n",
        "source.toml": 'benchmark = "sound.csv"\n[source]\nlabel = "fault"\nsplit = -1\n',
        "types.toml": 'benchmark = 3\nmethod = ["ucl"]\n[plan]\nepochs = "many"\nlr = nan\n',
        "nul.toml": 'benchmark = "a\\u0000b/c"\n[source]\nlabel = "\\u0000"\n',
        "huge.toml": f"seed = {10**40}\ntasks = {-(10**30)}\n[plan]\nlr = 1e300\n",
        "deep.toml": f"a = {'[' * 5000}{']' * 5000}\n",
        "unknown.toml": "[[plan]]\nx = 1\n[ucl]\nnothing = 1\n",
        "no.toml": "= = =\n",
        "list.json": "[1, 2, 3]\n",
        "deep.json": "[" * 100_000 + "]" * 100_000 + "\n",
        "format.json": json.dumps({"format": "uclearn.run", "schema": 1, "config": None}) + "\n",
        "sparse.json": json.dumps({"format": "uclearn.run", "schema": 1, "config": {}}) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)


def _runs(folder: Path) -> None:
    for method in ("ucl", "finetuning"):
        run(small(method), folder / "runs" / method)
    _begin(folder / "runs" / "open")
    for name in ("summary", "config"):
        place = folder / "runs" / f"{DAMAGED}-{name}"
        shutil.copytree(folder / "runs" / "ucl", place)
        path = place / f"{name}.json"
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 8'))
    (folder / "no-runs").mkdir()
    _old_runs(folder / "old-runs")


def _old_runs(folder: Path) -> None:
    """Of the first schema, whose documents carry no checksum: anything may stand in them."""
    head = {"format": "uclearn.run", "schema": 1}
    config = {"benchmark": "split-digits", "method": "ucl", "seed": 0}
    documents: dict[str, dict[str, object]] = {
        "none": {"config": None, "environment": None},
        "list": {"config": [1], "environment": {}},
        "lacking": {},
        "strange": {"config": {**config, "seed": "x", "changed": 3, "scale": "much"}},
        "sound": {"config": config, "environment": {}},
    }
    for name, document in documents.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps({**head, **document}))
    whole: dict[str, object] = {
        **dict.fromkeys(("average_accuracy", "forgetting", "peak_memory", "git_commit")),
        **{name: {} for name in ("versions", "machine", "extra")},
        "config": config,
        "accuracy_matrix": [],
        "seconds": 1.0,
        "parameters_kept": 1,
    }
    summaries: dict[str, dict[str, object]] = {
        "complete": {},
        "matrix": {"accuracy_matrix": 3},
        "cells": {"accuracy_matrix": [["x"]]},
        "numbers": {"average_accuracy": "0.5", "seconds": None},
        "shares": {"average_accuracy": 50},
    }
    for name, spoiled in summaries.items():
        (folder / name).mkdir()
        text = json.dumps({**head, **whole, **spoiled})
        (folder / name / "summary.json").write_text(text)
    (folder / "sound" / "events.jsonl").write_text('{"schema": 1}\n{"schema": 1, "event": 3}\n')


def _begin(place: Path) -> None:
    """A run that was stopped after its first task."""

    def stop(event: str, details: object) -> None:
        if event == "evaluation":
            raise StoppedError("enough")

    try:
        run(small("ewc"), place, stop, checkpoint_seconds=0)
    except StoppedError:
        return
    raise AssertionError("it was not stopped")


def _models(folder: Path) -> None:
    table = read_table(Asked(str(folder / "sound.csv"), label="fault"), Knows(), labelled=True)
    plan = Plan(epochs=1, batch_size=32)
    with Learner.open(
        folder / "model", new=lambda: Learner(mlp(2, (4,), None), plan=plan)
    ) as model:
        model.encoding = table.encoding
        model.learn(name="first", **as_update(table, {}, None, heads=True, add_classes=False))
    for name in ("journal.jsonl", "checkpoint.safetensors", "learner.json"):
        place = folder / f"model-{DAMAGED}-{name.partition('.')[0]}"
        shutil.copytree(folder / "model", place)
        data = bytearray((place / name).read_bytes())
        data[len(data) // 2] ^= 1
        (place / name).write_bytes(data)
