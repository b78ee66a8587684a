"""A session killed with SIGKILL at any moment gives the learning curve of one never interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.rl.small import small_plan
from uclearn.methods.registry import build
from uclearn.rl.policy import ActorCritic
from uclearn.rl.session import learn
from uclearn.storage.recorder import open_run

pytestmark = pytest.mark.rl

SEQUENCE = ("Pendulum-v1", "tests.rl.little:Turn-v0")


def learn_in(folder: Path) -> None:
    """One attempt; on success the result stands in the folder."""
    torch.set_num_threads(1)
    method = build(
        "ucl", ActorCritic(5), torch.zeros(1, 5), {"ucl": {"sigma": 0.1, "sampling": "weight"}}
    )
    plan = small_plan(steps_per_task=6 * 256, renew_every=1, evaluation_episodes=1)
    with open_run(folder, {}, "test") as run:
        outcome = learn(method, SEQUENCE, plan, folder=folder, journal=run)
    digest = hashlib.sha256()
    for key, tensor in sorted(method.state_dict().items()):
        digest.update(key.encode() + tensor.detach().contiguous().numpy().tobytes())
    events = (folder / "events.jsonl").read_text()
    result = {"state": digest.hexdigest(), "curve": outcome.curve(), "events": events}
    (folder / "result.json").write_text(json.dumps(result))


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.rl.test_kill", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
    )


def saved(folder: Path) -> int:
    """Events on disk: how far an attempt has come."""
    events = folder / "events.jsonl"
    return len(events.read_text().splitlines()) if events.exists() else 0


@pytest.mark.slow
def test_a_killed_session_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """Killed as soon as it has come a few events further, a random moment after that."""
    calm = start(tmp_path / "calm")
    chance = random.Random(0)
    killed, kills, mark = tmp_path / "killed", 0, 0
    while not (killed / "result.json").exists():
        attempt = start(killed)
        mark += 7
        while attempt.poll() is None and (kills >= 3 or saved(killed) < mark):
            time.sleep(0.01)
        if attempt.poll() is None:
            time.sleep(chance.uniform(0, 0.2))
            attempt.kill()
            kills += 1
        assert attempt.wait(300) in (0, -9)
    assert calm.wait(300) == 0
    assert kills == 3
    results = [json.loads((f / "result.json").read_text()) for f in (tmp_path / "calm", killed)]
    assert results[0] == results[1]


if __name__ == "__main__":
    learn_in(Path(sys.argv[1]))
