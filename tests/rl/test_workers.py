"""Workers that fail, in all the ways they can: a clear error, soon, and nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.rl.strange import HERE
from uclearn.errors import SimulatorError, TaskError
from uclearn.rl.environments import Environments

pytestmark = pytest.mark.rl

ROOT = Path(__file__).parents[2]


def pids(environments: Environments) -> list[int]:
    return [worker.pid for worker in environments._workers]


def gone(pid: int) -> bool:
    """The process ends, however busy the machine is."""
    for _ in range(2000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Whatever hangs is interrupted, and so fails."""

    def fail(*_: object) -> None:
        raise TimeoutError("this test hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(500)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_worker_killed_between_steps() -> None:
    with Environments("Pendulum-v1", count=4, workers=2) as environments:
        environments.reset()
        first, second = pids(environments)
        os.kill(second, signal.SIGKILL)
        message = (
            rf"worker process {second} died \(killed by SIGKILL\) that stepped environments 2 to 3 "
            "of 'Pendulum-v1'.*Fewer environments need less. A saved run can be resumed"
        )
        with pytest.raises(SimulatorError, match=message):
            environments.step(np.zeros((4, 1)))
        assert gone(first)
        with pytest.raises(TaskError, match="are closed, by `close` or by an error"):
            environments.step(np.zeros((4, 1)))


def test_a_worker_killed_in_the_middle_of_a_step() -> None:
    with Environments(f"{HERE}:Sleeps-v0", count=2, workers=2) as environments:
        environments.reset()
        first, second = pids(environments)
        threading.Timer(0.3, os.kill, [first, signal.SIGKILL]).start()
        start = time.monotonic()
        with pytest.raises(SimulatorError, match=rf"{first} died \(killed by SIGKILL\).*Sleeps-v0"):
            environments.step(np.zeros((2, 2)))
        assert time.monotonic() - start < 300  # the other one sleeps for 600
        assert gone(second)  # though it was fast asleep


def test_a_worker_that_dies_of_itself_leaves_its_last_words() -> None:
    with Environments(f"{HERE}:Aborts-v0", count=2, workers=1) as environments:
        environments.reset()
        with pytest.raises(
            SimulatorError, match=r"(?s)killed by SIGABRT.*It said: .*Fatal.*strange"
        ):
            environments.step([[0, 0], [1, 0]])


def test_an_exception_in_an_environment_names_it() -> None:
    with Environments(f"{HERE}:Raises-v0", count=4, workers=2) as environments:
        environments.reset()
        left = pids(environments)
        message = (
            r"Environment 3 of 'tests.rl.strange:Raises-v0' failed in `step`: "
            "ValueError: the knee gave way"
        )
        with pytest.raises(SimulatorError, match=message):
            environments.step([[0, 0], [0, 0], [0, 0], [1, 0]])
        assert all(gone(pid) for pid in left)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (1.0, r"Environment 2 of .*Breaks-v0' gave an observation whose number 1 is nan"),
        (-1.0, r"Environment 2 of .*Breaks-v0' gave a reward of -inf"),
    ],
)
def test_what_is_not_finite_is_found(action: float, message: str) -> None:
    with Environments(f"{HERE}:Breaks-v0", count=3, workers=2) as environments:
        environments.reset()
        with pytest.raises(SimulatorError, match=message):
            environments.step([[0.0, 0.0], [0.0, 0.0], [action, 0.0]])


def test_a_last_observation_that_is_not_finite_is_found_too() -> None:
    """It is replaced by the next episode's first one, but learning uses it."""
    with Environments(f"{HERE}:Breaks-v0", count=1, workers=1) as environments:
        environments.reset()
        environments.step([[0, 0]])
        environments.step([[0, 0]])
        with pytest.raises(SimulatorError, match=r"Environment 0 .* whose number 1 is nan"):
            environments.step([[1, 0]])


def test_prints_of_simulators_go_nowhere_and_block_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in (f"{HERE}:Chatters-v0", "InvertedPendulumBulletEnv-v0"):
        with Environments(name, count=2, workers=1) as environments:
            environments.reset()
            environments.step(np.zeros((2, environments.action_size)))
    assert capfd.readouterr() == ("", "")


def test_workers_know_no_torch() -> None:
    with Environments(f"{HERE}:Modules-v0", count=1, workers=1) as environments:
        assert environments.reset()[0, 0] == 0.0


LOOP = """
import numpy as np, sys, torch
from uclearn.rl.environments import Environments
environments = Environments("Pendulum-v1", count=2, workers=2)
environments.reset()
print(*(worker.pid for worker in environments._workers), flush=True)
while True:
    environments.step(np.zeros((2, 1)))
"""  # without `if __name__ == "__main__"`, which workers do not need


def looping() -> tuple[subprocess.Popen[str], list[int]]:
    program = subprocess.Popen(
        [sys.executable, "-c", LOOP],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )
    assert program.stdout is not None
    return program, [int(pid) for pid in program.stdout.readline().split()]


def test_ctrl_c_shows_one_traceback_and_leaves_no_worker() -> None:
    program, workers = looping()
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, words = program.communicate(timeout=300)
    assert words.count("Traceback") == 1
    assert words.rstrip().endswith("KeyboardInterrupt")
    assert len(workers) == 2
    assert all(gone(pid) for pid in workers)


def test_workers_work_on_after_ctrl_c_if_they_are_asked_to() -> None:
    """A run that is interrupted may want to finish what it is at, and save."""
    with Environments("Pendulum-v1", count=2, workers=2) as environments:
        environments.reset()
        for pid in pids(environments):
            os.kill(pid, signal.SIGINT)
        for _ in range(3):
            assert environments.step(np.zeros((2, 1))).rewards.shape == (2,)


def test_workers_outlive_nobody() -> None:
    program, workers = looping()
    program.kill()
    assert program.communicate(timeout=300)[1] == ""
    assert len(workers) == 2
    assert all(gone(pid) for pid in workers)
