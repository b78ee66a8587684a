"""Kills learning for real: forks a child that learns with a checkpoint after every step, sends it
SIGKILL at a random moment, starts another on the same folder, until one comes through. Tells what
an undisturbed child and the last survivor ended with, and how often it killed.

    python -m tests.training.harness FOLDER SEED METHOD ...
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.training.small import small_method, small_plan, small_tasks
from uclearn.storage.recorder import open_run
from uclearn.training import learn


def learn_in(name: str, folder: Path) -> None:
    """One attempt; on success the result stands in the folder."""
    torch.set_num_threads(1)
    plan = small_plan(checkpoint_seconds=0.0)
    with open_run(folder, {"method": name}, "harness") as run:
        method = small_method(name)
        outcome = learn(method, small_tasks(), plan, folder=folder, journal=run)
    digest = hashlib.sha256()
    for key, tensor in sorted(method.state_dict().items()):
        digest.update(key.encode() + tensor.detach().contiguous().numpy().tobytes())
    events = (folder / "events.jsonl").read_text()
    result = {"state": digest.hexdigest(), "matrix": outcome.accuracy_matrix, "events": events}
    (folder / "result.json").write_text(json.dumps(result))


def attempt(name: str, folder: Path, patience: float | None) -> bool:
    """Fork a child that learns; kill it after `patience` seconds unless it is done before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            learn_in(name, folder)
            code = 0
        finally:
            os._exit(code)
    if patience is not None:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{name}: the child failed by itself")
    return True


def disturbed_and_calm(name: str, folder: Path, chance: random.Random) -> dict[str, Any]:
    """Undisturbed, then killed several times."""
    begin = time.monotonic()
    attempt(name, folder / "calm", None)
    duration = time.monotonic() - begin
    for trial in range(8):
        killed = folder / f"killed {trial}"
        # every attempt gets a random share of the time that an undisturbed one takes
        shares = [chance.uniform(0.05, 0.6) for _ in range(4)]
        kills = 0
        while kills < len(shares) and not attempt(name, killed, shares[kills] * duration):
            kills += 1
        if kills >= 2:
            break
        duration /= 2  # the undisturbed one was slowed down: strike earlier
    if not (killed / "result.json").exists():
        attempt(name, killed, None)
    ended = [json.loads((part / "result.json").read_text()) for part in (folder / "calm", killed)]
    return {"calm": ended[0], "killed": ended[1], "kills": kills}


def main(folder: Path, seed: int, names: list[str]) -> None:
    """All methods, one after the other."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    json.dump({n: disturbed_and_calm(n, folder / n, chance) for n in names}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
