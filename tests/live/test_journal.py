"""An interrupted update is told from one that never was, none is counted twice, and a line does not
grow with the network."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.live.months import QUICK, learner, month, same, state
from uclearn.errors import DataError
from uclearn.live import folder as files
from uclearn.live.capacity import capacity_of
from uclearn.live.gate import Gate
from uclearn.live.journal import JOURNAL_NAME, read_journal, under_way
from uclearn.live.learner import Learner
from uclearn.measures.capacity import concerns, digest, layers_of
from uclearn.networks import mlp
from uclearn.storage.checkpoint import CHECKPOINT_NAME
from uclearn.storage.sealed import read_sealed_lines

GATE = Gate(max_drop=0.99, canary=10)


def taught(folder: Path, *months: int) -> None:
    for number in months:
        with Learner.open(folder, new=lambda: learner("ucl", plan=QUICK)) as ours:
            ours.learn(month(number, 48), f"month {number}", gate=GATE)


def story(folder: Path) -> list[tuple[str, int]]:
    """All that the file says: events and numbers."""
    return [(line["event"], line["number"]) for line in read_sealed_lines(folder / JOURNAL_NAME)]


def told(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what the clock says, and interruptions."""
    kept = [line for line in lines if line["event"] != "interrupted"]
    return [{k: v for k, v in line.items() if k not in ("time", "seconds")} for line in kept]


def killed_while_learning(folder: Path) -> None:
    code = """
import os, sys, torch
from tests.live.months import QUICK, learner, month
from uclearn.live.gate import Gate
from uclearn.live import update
from uclearn.live.learner import Learner
update.train_task = lambda *_: os.kill(os.getpid(), 9)
with Learner.open(sys.argv[1], new=lambda: learner("ucl", plan=QUICK)) as ours:
    ours.learn(month(1, 48), "month 1", gate=Gate(max_drop=0.99, canary=10))
"""
    ended = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert ended.returncode == -9


@pytest.mark.slow
def test_after_kills_the_journal_has_the_same_lines_and_says_what_was_interrupted(
    tmp_path: Path,
) -> None:
    ours, other = tmp_path / "killed", tmp_path / "whole"
    taught(ours, 0)
    killed_while_learning(ours)
    (begun,) = under_way(ours)
    assert (begun["number"], begun["name"]) == (2, "month 1")
    assert list(Learner.load(ours).tasks) == ["month 0"]  # loading alone writes nothing
    killed_while_learning(ours)
    taught(ours, 1, 2)
    taught(other, 0, 1, 2)
    assert same(state(Learner.load(ours)), state(Learner.load(other)))
    whole = [("begun", 1), ("update", 1), ("begun", 2), ("update", 2), ("begun", 3), ("update", 3)]
    assert story(other) == whole
    pair = [("begun", 2), ("interrupted", 2)]
    assert story(ours) == [*whole[:2], *pair, *pair, *whole[2:]]
    assert told(read_journal(ours)) == told(read_journal(other))
    assert under_way(ours) == []
    assert [line["event"] for line in Learner.load(ours).journal].count("interrupted") == 2


def test_an_error_interrupts_too_and_says_which(tmp_path: Path) -> None:
    taught(tmp_path, 0)

    def stopped(*_: Any) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Learner.open(tmp_path, loss=stopped) as ours:
        ours.learn(month(1, 48), "month 1")
    assert story(tmp_path)[2:] == [("begun", 2), ("interrupted", 2)]
    (line,) = [line for line in read_journal(tmp_path) if line["event"] == "interrupted"]
    assert line["why"] == "KeyboardInterrupt"


def test_several_updates_of_an_open_folder_end_together(tmp_path: Path) -> None:
    with Learner.open(tmp_path, new=lambda: learner("ucl", plan=QUICK)) as ours:
        for number in range(2):
            ours.learn(month(number, 48), f"month {number}", gate=GATE)
        assert [line["number"] for line in under_way(tmp_path)] == [1, 2]
    whole = [("begun", 1), ("begun", 2), ("update", 1), ("update", 2)]
    assert story(tmp_path) == whole
    nothing = (torch.zeros(0, 4), torch.zeros(0))
    with suppress(DataError), Learner.open(tmp_path) as ours:
        ours.learn(month(2, 48), "month 2", gate=GATE)  # nothing of it is saved
        ours.learn(nothing, "month 3")
    assert story(tmp_path) == [*whole, ("begun", 3), ("interrupted", 3)]


def test_an_update_that_failed_and_is_tried_again_is_told_twice(tmp_path: Path) -> None:
    failures = [True]

    def once(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if failures and failures.pop():
            raise RuntimeError("no more memory")
        return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")

    with Learner.open(tmp_path, new=lambda: learner("ucl", plan=QUICK, loss=once)) as ours:
        with suppress(RuntimeError):
            ours.learn(month(0, 48), "month 0")
        ours.learn(month(0, 48), "month 0")
    assert story(tmp_path) == [("begun", 1), ("interrupted", 1), ("begun", 1), ("update", 1)]
    told_of = Learner.load(tmp_path, loss=once).journal
    assert [line["event"] for line in told_of] == ["interrupted", "update"]


def test_what_is_refused_before_it_begins_was_never_begun(tmp_path: Path) -> None:
    taught(tmp_path, 0)
    with pytest.raises(DataError), Learner.open(tmp_path) as ours:
        ours.learn((torch.zeros(0, 4), torch.zeros(0)), "month 1")
    assert story(tmp_path) == [("begun", 1), ("update", 1)]


def test_a_kill_between_state_and_journal_loses_no_line_and_interrupts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught(tmp_path, 0)

    class Killed(BaseException):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(files, "append_missing", kill)
    with pytest.raises(Killed), Learner.open(tmp_path) as ours:
        ours.learn(month(1, 48), "month 1", gate=GATE)
    monkeypatch.undo()
    assert story(tmp_path)[-1] == ("begun", 2)
    assert [line["number"] for line in Learner.load(tmp_path).journal] == [1, 2]
    taught(tmp_path, 2)
    assert story(tmp_path)[2:] == [("begun", 2), ("update", 2), ("begun", 3), ("update", 3)]


def test_a_lost_journal_is_had_again_from_the_state(tmp_path: Path) -> None:
    taught(tmp_path, 0, 1)
    lines = read_journal(tmp_path)
    (tmp_path / JOURNAL_NAME).unlink()
    assert Learner.load(tmp_path).journal == lines
    taught(tmp_path, 2)
    assert read_journal(tmp_path)[:2] == lines


def test_a_line_does_not_grow_with_the_network() -> None:
    sizes = []
    for width in (20, 2000):
        ours = Learner(mlp(4, (width,), 2), "ucl", plan=QUICK)
        ours.learn(month(0, 48), "january")
        sizes.append(len(json.dumps(ours.journal)))
    assert sizes[1] < sizes[0] + 40
    assert sizes[0] < 1500


@pytest.mark.parametrize("nodes", [2, 7, 300])
def test_a_digest_says_of_room_and_concerns_what_all_nodes_would(nodes: int) -> None:
    draw = torch.Generator().manual_seed(nodes)
    for scale in (0.02, 0.5, 1.0):
        sigma = (0.1 * torch.rand(nodes, generator=draw) * scale).tolist()
        layers = {"0": {"sigma_init": 0.1, "sigma": sigma, "taken": 0.3}}
        whole, short = (
            [{"event": "nodes", "task": 0, "layers": each}] for each in (layers, digest(layers))
        )
        assert len(json.dumps(digest(layers))) < 200
        assert capacity_of(short) == capacity_of(whole)
        assert concerns(layers_of(short)) == concerns(layers_of(whole))
        (one,) = layers_of(short)
        assert max(one.sigma[0]) == pytest.approx(max(sigma), rel=1e-3)
        assert min(one.sigma[0]) == pytest.approx(min(sigma), rel=1e-3)


def test_a_rejected_update_leaves_little_but_its_line(tmp_path: Path) -> None:
    taught(tmp_path, 0)
    strict = Gate(max_drop=0.0, rule="possible", canary=10)
    sizes = []
    for number in range(1, 7):
        with Learner.open(tmp_path) as ours:
            assert not ours.learn(month(number, 48), f"try {number}", gate=strict).kept
        sizes.append((tmp_path / CHECKPOINT_NAME).stat().st_size)
    assert sizes[-1] - sizes[0] < 5 * 400
    journal = (tmp_path / JOURNAL_NAME).stat().st_size
    assert journal < 7 * 2200
