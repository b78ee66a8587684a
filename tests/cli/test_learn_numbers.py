"""`uclearn learn --target`: numbers instead of classes; and groups that stay whole."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import torch

from tests.cli.terminal import Uclearn
from tests.tasks.own.files import write_csv
from uclearn.live.canaries import hashes_of_words
from uclearn.live.learner import Learner

QUICK = ("--epochs", "60", "--lr", "0.01", "--hidden", "16", "--batch-size", "16")


def wear(path: str, seed: int, rows: int = 120) -> None:
    """Wear in thousands of hours, by heat and colour."""
    draw = torch.Generator().manual_seed(seed)
    heat = torch.rand(rows, generator=draw) * 100
    lines = [
        [f"{h:.2f}", ("red", "blue")[k % 2], f"{5000 + 40 * h + 1000 * (k % 2):.1f}"]
        for k, h in enumerate(heat.tolist())
    ]
    write_csv(Path(path), ["heat", "colour", "hours"], lines)


def test_numbers_are_learned_and_answered_in_their_own_units(uclearn: Uclearn) -> None:
    wear("january.csv", 0)
    data = ("--data", "january.csv", "--target", "hours")
    said = uclearn("learn", "m", *data, "--name", "january", *QUICK)
    assert said.code == 0, said.err
    assert "january: ungated. 108 examples" in said.out
    assert "on 12 rows that were not learned from" in said.out
    wear("february.csv", 1)
    said = uclearn("learn", "m", "--data", "february.csv", "--name", "february", "--json")
    told = json.loads(said.out)
    assert told["error"] < 0.5 * told["error_of_mean"]
    write_csv(Path("asked.csv"), ["colour", "heat"], [["red", 50], ["blue", 50]])
    said = uclearn("predict", "m", "--data", "asked.csv", "--uncertainty")
    first, second = csv.DictReader(said.out.splitlines())
    assert abs(float(first["hours"]) - 7000) < 700
    assert abs(float(second["hours"]) - 8000) < 700
    assert float(first["disagreement"]) > 0
    assert uclearn("status", "m").code == 0


def test_what_is_learned_stays_what_it_is(uclearn: Uclearn) -> None:
    wear("january.csv", 0, 30)
    quick = ("--epochs", "1", "--hidden", "4")
    data = ("--data", "january.csv")
    assert uclearn("learn", "m", *data, "--target", "hours", "--name", "a", *quick).code == 0
    said = uclearn("learn", "m", *data, "--label", "colour", "--name", "b")
    assert said.code == 1
    assert "This model was taught to predict numbers (hours), which cannot be changed." in said.err
    said = uclearn("learn", "n", *data, "--target", "colour", "--name", "c")
    assert said.code == 1
    assert "column colour: expected a number to be predicted, found words" in said.err


def visits(path: str, patients: range, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = []
    for patient in patients:
        for x in torch.randn(4, generator=draw).tolist():
            rows.append([f"{x:.4f}", f"{patient + seed / 100:.2f}", f"p{patient}", str(x > 0)])
    write_csv(Path(path), ["x", "age", "group", "label"], rows)


def test_groups_are_set_apart_whole_and_stay_on_their_side(uclearn: Uclearn) -> None:
    quick = ("--epochs", "2", "--hidden", "8", "--max-drop", "0.9", "--canary", "10")
    visits("january.csv", range(12), 1)
    said = uclearn("learn", "m", "--data", "january.csv", "--name", "january", *quick)
    assert said.code == 0, said.err
    assert "36 examples, 12 set apart" in said.out
    known = Learner.load("m").tasks["january"]
    names = hashes_of_words([f"p{k}" for k in range(12)])
    guards = torch.isin(names, known.groups)
    assert int(guards.sum()) == 3
    assert torch.equal(guards, ~torch.isin(names, known.groups_seen))
    # the same patients come again, and some new ones
    visits("february.csv", range(4, 16), 2)
    said = uclearn("learn", "m", "--data", "february.csv", "--name", "february", *quick[-4:])
    assert said.code == 0, said.err
    later = Learner.load("m").tasks["february"]
    everyone = hashes_of_words([f"p{k}" for k in range(16)])
    one_side = torch.isin(everyone, torch.cat([known.groups, later.groups]))
    other_side = torch.isin(everyone, torch.cat([known.groups_seen, later.groups_seen]))
    assert not bool((one_side & other_side).any())
