import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from uclearn.errors import DataError
from uclearn.storage import recorder as module
from uclearn.storage.files import FolderBusyError, StorageError, aside_of
from uclearn.storage.recorder import environment, open_run
from uclearn.storage.records import Summary, read_run

CONFIG = {"benchmark": "digits", "seed": 0, "ucl": {"beta": 0.03, "layers": (1, 2)}}
STORED = {"benchmark": "digits", "seed": 0, "ucl": {"beta": 0.03, "layers": [1, 2]}}


def summary() -> Summary:
    return Summary(
        config=STORED,
        accuracy_matrix=[[1.0]],
        average_accuracy=1.0,
        forgetting=None,
        seconds=1.0,
        peak_memory=None,
        parameters_kept=1,
        **environment(),
    )


def test_a_run_from_beginning_to_end(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "1"
    with open_run(folder, CONFIG, "test") as run:
        assert run.position == 0
        run.append("evaluation", {"task": 0, "accuracies": (0.5, float("nan"))})
        assert run.position == 1
        assert (run.summary, read_run(folder).summary) == (None, None)
        run.finish(summary())
        assert run.summary == summary()
    found = read_run(folder)
    assert found.config == STORED
    assert found.environment == environment()
    assert found.events == [
        {"schema": 2, "event": "evaluation", "task": 0, "accuracies": [0.5, None]}
    ]
    assert found.summary == summary()


def test_an_event_is_on_the_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
        run.append("evaluation", {})
        assert synced == [(tmp_path / "events.jsonl").stat().st_ino]


def test_going_on_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        for number in range(5):
            run.append("evaluation", {"number": number})
    whole = (tmp_path / "events.jsonl").read_bytes()
    begun = (tmp_path / "config.json").read_bytes()
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"schema": 1, "torn')
    with open_run(tmp_path, CONFIG, "test") as run:
        assert run.position == 5
        run.rewind(3)
        assert run.position == 3
        assert [event["number"] for event in read_run(tmp_path).events] == [0, 1, 2]
        for number in (3, 4):
            run.append("evaluation", {"number": number})
    assert (tmp_path / "events.jsonl").read_bytes() == whole
    assert (tmp_path / "config.json").read_bytes() == begun


def test_rewinding_withdraws_the_summary_only_if_events_are_dropped(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        run.append("evaluation", {})
        run.finish(summary())
        run.rewind(1)
        assert (run.summary, read_run(tmp_path).summary) == (summary(), summary())
        run.rewind(0)
        assert (run.summary, read_run(tmp_path).summary) == (None, None)


def test_a_complete_run_says_so_and_takes_no_more_events(tmp_path: Path) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        run.finish(summary())
    with open_run(tmp_path, CONFIG, "test") as run:
        assert run.summary == summary()
        with pytest.raises(DataError, match=r"is complete and takes no further events. Rewind it"):
            run.append("evaluation", {})
        assert run.position == 0


@pytest.mark.parametrize("position", [-1, 3])
def test_rewinding_to_events_that_are_not_there(tmp_path: Path, position: int) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        run.append("evaluation", {})
        run.append("evaluation", {})
        said = rf"`position` must lie between 0 and the 2 events in .*, got {position}. If a check"
        with pytest.raises(DataError, match=said):
            run.rewind(position)
        assert len(read_run(tmp_path).events) == 2


@pytest.mark.parametrize("key", ["schema", "event"])
def test_keys_of_our_own_are_refused(tmp_path: Path, key: str) -> None:
    with open_run(tmp_path, CONFIG, "test") as run:
        with pytest.raises(DataError, match=f"`details` must not have the key '{key}'"):
            run.append("evaluation", {key: 1})
        with pytest.raises(DataError, match=r"`details.accuracy` must be a dict"):
            run.append("evaluation", {"accuracy": b""})
        assert run.position == 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**CONFIG, "seed": 1}, "`config.seed` is 0 there and 1 here"),
        ({**CONFIG, "seed": False}, "`config.seed` is 0 there and False here"),
        ({**CONFIG, "seed": 0.0}, "`config.seed` is 0 there and 0.0 here"),
        ({**CONFIG, "new": None}, "`config.new` is 'absent' there and None here"),
        (
            {**CONFIG, "ucl": {"beta": 0.1}},
            "`config.ucl.beta` is 0.03 there and 0.1 here; `config.ucl.layers` is [1, 2] there "
            "and 'absent' here",
        ),
    ],
)
def test_another_configuration_is_refused_by_its_differences(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    open_run(tmp_path, CONFIG, "test").close()
    with pytest.raises(DataError) as caught:
        open_run(tmp_path, config, "test")
    assert str(caught.value) == (
        f"{tmp_path} holds a run with other settings: {said}. Choose another folder, or the same "
        "settings."
    )
    open_run(tmp_path, CONFIG, "test").close()


def test_the_order_of_settings_does_not_matter(tmp_path: Path) -> None:
    open_run(tmp_path, CONFIG, "test").close()
    open_run(tmp_path, dict(reversed(CONFIG.items())), "test").close()


def test_two_in_one_folder(tmp_path: Path) -> None:
    with (
        open_run(tmp_path, CONFIG, "the first"),
        pytest.raises(FolderBusyError, match=rf"process {os.getpid()} \(the first\)"),
    ):
        open_run(tmp_path, CONFIG, "the second")


@pytest.mark.parametrize("name", ["events.jsonl", "summary.json"])
def test_files_of_an_unknown_run_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}\n")
    with pytest.raises(DataError, match=rf"holds {name} but no config.json, so it cannot be gone"):
        open_run(tmp_path, CONFIG, "test")
    assert (tmp_path / name).read_text() == "{}\n"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Could not make .*Choose another folder"):
        open_run(tmp_path / "file" / "run", CONFIG, "test")


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    leftover = aside_of(tmp_path / "summary.json")
    leftover.touch()
    open_run(tmp_path, CONFIG, "test").close()
    assert not leftover.exists()


RUN = """
import sys, time
from pathlib import Path
from uclearn.storage.files import read_json, write_json
from uclearn.storage.recorder import open_run
folder = Path(sys.argv[1])
checkpoint = folder / "position.json"
with open_run(folder, {"seed": 0}, "test") as run:
    state = read_json(checkpoint) if checkpoint.exists() else {"step": 0, "events": 0}
    run.rewind(state["events"])
    for step in range(state["step"], 40):
        run.append("evaluation", {"step": step, "filling": "x" * (step * 997 % 3000)})
        if step % 3 == 2:
            write_json(checkpoint, {"step": step + 1, "events": run.position})
        time.sleep(0.005)
"""


def count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_a_run_killed_at_random_moments_has_the_events_of_one_that_never_was(
    tmp_path: Path,
) -> None:
    """The stand-in for a checkpoint is saved every third event, so that there is some to drop."""
    draw = random.Random(0)
    command = [sys.executable, "-c", RUN]
    kills = 0
    recorded = tmp_path / "killed" / "events.jsonl"
    while True:
        saved = count(recorded) // 3 * 3
        enough = saved + draw.randint(4, 9)
        process = subprocess.Popen([*command, str(recorded.parent)])
        while process.poll() is None and count(recorded) < enough:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.008))
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break
        kills += 1
    assert kills > 0
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    events = [(tmp_path / name / "events.jsonl").read_bytes() for name in ("killed", "whole")]
    assert events[0] == events[1]
    assert len(events[0].splitlines()) == 40
    assert json.loads(events[0].splitlines()[-1])["step"] == 39


PACKAGE = Path(module.__file__).parents[1]


def test_the_versions_are_those_installed() -> None:
    found = environment()["versions"]
    assert found["python"] == platform.python_version()
    assert found["torch"] == version("torch")
    assert found["uclearn"] == version("uclearn")


def test_the_machine_has_processors_and_memory_and_no_name() -> None:
    machine = environment()["machine"]
    assert machine["processors"] == os.cpu_count()
    assert machine["system"] == platform.system()
    assert isinstance(machine["memory"], int)
    assert machine["memory"] > 2**28
    assert platform.node() not in machine.values()


def test_it_is_json() -> None:
    assert json.loads(json.dumps(environment())) == environment()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit_seen_by(folder: Path) -> str | None:
    """What the copy of the package in `folder` says that its commit is."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from uclearn.storage import recorder
assert recorder.__file__.startswith(sys.argv[1])
print(recorder.environment()["git_commit"])
"""
    command = [sys.executable, "-c", code, str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None if said == "None" else said


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_source_and_of_nothing_around_it(tmp_path: Path) -> None:
    (tmp_path / "uclearn" / "storage").mkdir(parents=True)
    (tmp_path / "uclearn" / "__init__.py").touch()
    needed = ("__init__", "files", "recorder", "records", "sealed", "shapes")
    for name in ("errors.py", *(f"storage/{file}.py" for file in needed)):
        shutil.copy(PACKAGE / name, tmp_path / "uclearn" / name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "somebody's project")
    assert commit_seen_by(tmp_path) is None

    git(tmp_path, "add", "uclearn/*.py")
    git(tmp_path, "commit", "--quiet", "--message", "the source of uclearn")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert len(head) == 40
    assert commit_seen_by(tmp_path) == head

    with (tmp_path / "uclearn" / "storage" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert commit_seen_by(tmp_path) == head + "-dirty"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment()["git_commit"] is None


def test_a_package_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("torch", "surely-no-such-package"))
    assert set(environment()["versions"]) == {"python", "torch"}
