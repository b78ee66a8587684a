import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from uclearn.storage import environment as module
from uclearn.storage.environment import environment

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
from uclearn.storage import environment
assert environment.__file__.startswith(sys.argv[1])
print(environment.environment()["git_commit"])
"""
    command = [sys.executable, "-c", code, str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None if said == "None" else said


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_source_and_of_nothing_around_it(tmp_path: Path) -> None:
    (tmp_path / "uclearn" / "storage").mkdir(parents=True)
    (tmp_path / "uclearn" / "__init__.py").touch()
    for name in ("storage/__init__.py", "storage/environment.py"):
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
