"""Two processes that learn one model, started by torchrun, against one that does it alone."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.ranks.cases import OWN_LOOPS, SESSIONS, learned, method, tasks
from tests.training.small import small_plan
from uclearn.errors import SettingError
from uclearn.ranks import ALONE, Ranks, choose_device, present
from uclearn.training import learn

pytestmark = pytest.mark.torchrun

CASES = [("session", name) for name in SESSIONS] + [("own loop", name) for name in OWN_LOOPS]


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which both processes wrote what they found; test workers share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "together"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "told 1.json").exists():
            _two_processes(folder)
    return folder


def _two_processes(folder: Path) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "tests.ranks.harness", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def told(found: Path) -> list[dict[str, Any]]:
    """What each process said."""
    return [json.loads((found / f"told {rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize(("room", "name"), CASES, ids=lambda word: word.replace(" ", "-"))
def test_two_processes_end_where_one_does(room: str, name: str, found: Path) -> None:
    """Weights, anchors, importances, accuracies, losses, decisions of the schedule."""
    alone = {"session": SESSIONS, "own loop": OWN_LOOPS}[room][name]()
    for rank in range(2):
        together = load_file(found / f"{room} {name} {rank}.safetensors")
        if rank:
            alone.pop("told", None)  # the first process alone speaks
        for each in (alone, together):
            each.pop("_old_heads.left", None)  # fingerprints: they tell apart what rounding does
        assert together.keys() == alone.keys()
        for key, value in alone.items():
            torch.testing.assert_close(
                together[key],
                value.detach(),
                rtol=1e-7,
                atol=1e-9,
                msg=f"{name}: {key}",
            )


def test_the_processes_are_those_that_torchrun_started(told: list[dict[str, Any]]) -> None:
    assert [each["ranks"] for each in told] == [[0, 2], [1, 2]]


@pytest.mark.parametrize("name", ["ucl", "vcl"])
def test_noise_differs_between_processes_and_weights_do_not(
    name: str, told: list[dict[str, Any]], found: Path
) -> None:
    for each in told:
        assert each[name] == {"same weights": True, "same noise": False, "same draws so far": True}
    first, second = (load_file(found / f"noisy {name} {rank}.safetensors") for rank in range(2))
    del first["told"]
    assert [int(each.pop("stream")) for each in (first, second)] == [0, 1]
    alone = learned(name)["matrix"]
    assert (first["matrix"].diag() - alone.diag()).abs().max() < 0.15
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(second[key], value), key


def test_ucl_in_torchs_own_ddp_stays_in_step(told: list[dict[str, Any]]) -> None:
    for each in told:
        assert each["ddp"] == {"same state": True, "same outputs": False}


def test_all_processes_refit_the_same_copy_on_a_coreset(told: list[dict[str, Any]]) -> None:
    for each in told:
        assert each["refitted"] == {"same copy": True, "refitted": True}


def test_all_stop_when_one_is_asked_to_and_go_on_together(
    told: list[dict[str, Any]], found: Path
) -> None:
    for each in told:
        assert each["stopped"]["message"].startswith("Stopped as asked; the state is saved in")
        assert each["stopped"]["stopped at"] == 8
    alone = method("ewc", True, {"ewc": {"strength": 30.0}})
    learn(alone, tasks(True), small_plan())
    for rank in range(2):
        resumed = load_file(found / "stopped" / f"resumed {rank}.safetensors")
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(resumed[key], value.detach(), rtol=1e-7, atol=1e-9, msg=key)


def test_dropout_differs_between_processes_and_the_first_draws_as_one_alone(
    told: list[dict[str, Any]],
) -> None:
    first, second = (each["dropout"]["drawn"] for each in told)
    assert first != second
    torch.manual_seed(7)
    assert first == torch.rand(3).tolist()


def test_heads_of_other_tasks_do_not_travel(told: list[dict[str, Any]]) -> None:
    for each in told:
        sent = each["sent"]
        assert sent["used"] < sent["numbers"]
        assert sent["messages"] == [1 + sent["parameters"], sent["used"]]


def test_what_one_process_cannot_do_ends_all_of_them(told: list[dict[str, Any]]) -> None:
    for each in told:
        assert each["refused"].keys() == {"different weights", "not finite"}
        assert each["refused"]["different weights"] == (
            "The 2 processes begin with different weights. Build the network and the method alike "
            "in all of them: seed torch with the same number first."
        )
        assert each["refused"]["not finite"].startswith("The loss of task 'broken' became nan in")


# -- what needs no second process ----------------------------------------------------------


def test_without_torch_distributed_there_is_one_process() -> None:
    assert present() == ALONE == Ranks(0, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 7, 60, 121, 600])
def test_shares_and_portions_are_a_partition(size: int, count: int) -> None:
    ranks = [Ranks(rank, size) for rank in range(size)]
    examples = list(range(count))
    counted = [examples[r.share(count)] for r in ranks if r.weight(count)]
    assert sorted(i for mine in counted for i in mine) == examples
    assert math.isclose(sum(r.weight(count) for r in ranks), 1)
    for mine, r in zip(counted, ranks, strict=False):
        assert math.isclose(r.weight(count), len(mine) / count)
    assert all(examples[r.share(count)] for r in ranks)  # nobody has nothing to run
    for uncut in (1, 60):
        portions = [r.portion(count, uncut) for r in ranks]
        assert [i for p in portions for i in p] == examples
        assert all(p.start % uncut == 0 for p in portions)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match="`device` must be one that this machine has, such as"):
        choose_device("quantum")
    assert choose_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
