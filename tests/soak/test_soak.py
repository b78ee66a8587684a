"""A small share of the soak; `make soak` tries more, and prints a table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.damage import WAYS, damage, spoiled
from tests.soak.disturbances import full_disk, jumping_clock, network_folder
from tests.soak.ordeals import Calm, repeated, two_writers

pytestmark = pytest.mark.slow


def test_whatever_is_damaged_is_named_or_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uclearn.storage.index.WORTH_IT", 2)
    found, lost = damage(tmp_path, random.Random(0), 60)
    assert lost == []
    assert found["named"] > 20


def test_every_way_to_damage_a_file_changes_it() -> None:
    data = b"".join(b"line %d\n" % k for k in range(50))
    for way in WAYS:
        assert any(spoiled(data, way, random.Random(k)) != data for k in range(9)), way


def test_a_disturbed_run_ends_as_one_left_alone(tmp_path: Path) -> None:
    calm, chance = Calm("run", tmp_path), random.Random(0)
    rows = [
        repeated(name, calm, tmp_path, chance, 1, disturb)
        for name, disturb in (
            ("full disk", full_disk),
            ("clock", jumping_clock),
            ("network", network_folder),
        )
    ]
    rows.append(two_writers(calm, tmp_path, 1))
    assert [row.lost for row in rows] == [[]] * 4
    assert not rows[0].note.startswith("0 ")  # the disk was full, and it was noticed
