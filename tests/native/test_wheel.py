"""The wheel: it works in an environment of its own, and brings the compiled library along."""

from __future__ import annotations

import email
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from uclearn.native import build

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only on Linux"),
]
WHO = """
import uclearn, torch
from uclearn.native import build, in_use
print(uclearn.__file__)
print(build._prebuilt())
print(in_use())
torch.manual_seed(0)
layer = uclearn.UCL(torch.nn.Linear(300, 200), torch.zeros(1, 300), seed=3).model
print(layer(torch.ones(2, 300)).sum().item())
"""
REPORT = """
import sys, uclearn, uclearn.cli.app
print(uclearn.__file__)
print(*dir(uclearn))
sys.argv = ["uclearn", "report", "runs", "-o", "report.html"]
uclearn.cli.app.main()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (made,) = folder.glob("uclearn-*-py3-none-linux_*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder where the wheel was unpacked; as pip does, which also checks its tags."""
    place = wheel.parent / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(place), str(wheel)], check=True, capture_output=True)
    return place


def told(installed: Path, cache: Path, **others: str) -> list[str]:
    """By a process that finds no compiler."""
    surroundings = {**os.environ, "PATH": "", "CC": "no-such-compiler", **others}
    surroundings.update(PYTHONPATH=str(installed), XDG_CACHE_HOME=str(cache))
    command = [sys.executable, "-P", "-c", WHO]
    done = subprocess.run(
        command, env=surroundings, cwd=cache, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_library_comes_along_and_is_loaded_without_a_compiler(
    installed: Path, tmp_path: Path
) -> None:
    source, prebuilt, who, drawn = told(installed, tmp_path, UCLEARN_NATIVE="1")
    assert Path(source).is_relative_to(installed)
    assert Path(prebuilt).is_relative_to(installed)
    assert who == "native"
    assert list(tmp_path.iterdir()) == []  # nothing was compiled
    *_, alone, drawn_alone = told(installed, tmp_path, UCLEARN_NATIVE="0")
    assert alone == "torch (UCLEARN_NATIVE=0)"
    assert float(drawn) == pytest.approx(float(drawn_alone), rel=1e-4)


def test_a_processor_gets_the_best_that_it_can_run(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = installed / "uclearn" / "native" / "kernels"
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    if not (sources / build.prebuilt_name("x86-64-v3")).exists():
        pytest.skip("built on another architecture")
    v3, v4 = (build.LEVELS["x86_64"][level] for level in ("x86-64-v3", "x86-64-v4"))
    for flags, level in (((*v3, *v4), "x86-64-v4"), (v3, "x86-64-v3"), (v3[1:], None)):
        line = f"flags : {' '.join(flags)}"
        monkeypatch.setattr(build, "_processor", lambda line=line: [line])
        found = build._prebuilt()
        assert (None if found is None else found.name) == (
            None if level is None else build.prebuilt_name(level)
        )


def test_without_a_compiler_the_wheel_is_for_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    surroundings = {**os.environ, "CC": "no-such-compiler"}
    subprocess.run(
        [*command, "--outdir", str(tmp_path)],
        cwd=ROOT,
        env=surroundings,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("uclearn-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]


@pytest.fixture(scope="module")
def elsewhere(wheel: Path) -> Path:
    """An environment of its own in which the wheel is installed and nothing else. What uclearn
    needs is lent by the environment of the tests, but not the source tree, which is there, too."""
    place = wheel.parent / "environment"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
    (own,) = place.glob("lib/python*/site-packages")
    (own / "lent.pth").write_text(sysconfig.get_path("purelib"))
    return place


def ended(place: Path, folder: Path, *words: str) -> str:
    """What a program of the environment prints, started in `folder` with no path of ours."""
    surroundings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    command = [str(place / "bin" / words[0]), *words[1:]]
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_in_an_environment_of_its_own(elsewhere: Path, tmp_path: Path) -> None:
    small = ["--tasks", "2", "--epochs", "1", "--set", "network.hidden=[8]", "--quiet"]
    ended(elsewhere, tmp_path, "uclearn", "run", "split-digits", *small)
    place, names, *_ = ended(elsewhere, tmp_path, "python", "-c", REPORT).splitlines()
    assert Path(place).is_relative_to(elsewhere)  # not the source tree
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert {"UCL", "EWC", "Learner", "Gate"} <= set(names.split())


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (place,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        said = email.message_from_bytes(archive.read(place))
        assert "uclearn/data/digits.csv.gz" in archive.namelist()
    assert said["Requires-Python"] == ">=3.11"
    links = {link.split(",")[0] for link in said.get_all("Project-URL", [])}
    assert links >= {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert "continual learning" in said["Keywords"]
    kinds = said.get_all("Classifier", [])
    assert "Programming Language :: Python :: 3.11" in kinds
    brought = {need for need in said.get_all("Requires-Dist", []) if "extra == 'all'" in need}
    assert brought
    for tool in ("ruff", "mypy", "pytest", "selenium", "mkdocs"):  # no user wants them
        assert not any(tool in need for need in brought)
