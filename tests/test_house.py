"""The rules of the house: who may import whom, what an import costs, where tests lie, what is in
the wheel."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import uclearn

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the project's contracts on the package that lies in `folder`."""
    program = str(Path(sys.executable).with_name("lint-imports"))
    command = [program, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_go_one_way_only() -> None:
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "imported"),
    [("errors", "topology"), ("topology", "tasks"), ("penalties", "networks")],
)
def test_an_import_upwards_is_found(tmp_path: Path, module: str, imported: str) -> None:
    """The contract above is not empty: one wrong line in one module breaks it."""
    package = tmp_path / "uclearn"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("errors", "topology", "tasks", "penalties", "networks"):
        (package / f"{name}.py").touch()
    (package / f"{module}.py").write_text(f"import uclearn.{imported}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert f"uclearn.{module} -> uclearn.{imported}" in result.stdout


def test_importing_the_package_asks_for_no_extra() -> None:
    """Not even an attempt guarded by `try`: those would load whatever happens to be installed."""
    code = """
import sys

class Recorder:
    asked = set()
    def find_spec(self, name, path=None, target=None):
        self.asked.add(name.partition(".")[0])

sys.meta_path.insert(0, Recorder())
import uclearn
uclearn.UCL  # loaded on demand, with all that it needs
print(*Recorder.asked)
"""
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    asked = set(output.split())
    assert {"uclearn", "torch"} <= asked
    assert not asked & {"gymnasium", "pybullet", "plotly", "matplotlib", "optuna", "ray"}


def test_the_version_is_written_once() -> None:
    assert uclearn.__version__ == PROJECT["version"]


def test_the_wheel_carries_types_and_data(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
    ]
    without_library = {**os.environ, "UCLEARN_NATIVE": "0"}  # tests/native have the one with it
    subprocess.run(command, cwd=ROOT, env=without_library, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("uclearn-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        digits = archive.read("uclearn/data/digits.csv.gz")
    assert digits == (ROOT / "src/uclearn/data/digits.csv.gz").read_bytes()
    assert {"uclearn/py.typed", "uclearn/data/README.md"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {
        "uclearn",
        f"uclearn-{PROJECT['version']}.dist-info",
    }


# -- where tests lie ---------------------------------------------------------------------------

WHOLE = {
    # rooms that are tested as one: networks of all kinds through the topology, a page in a browser
    *("topology/test_branching_networks.py", "topology/test_plain_networks.py"),
    *("topology/test_random_networks.py", "topology/test_user_code.py"),
    *("report/test_browser.py", "report/test_browser_large.py", "report/test_real_runs.py"),
    # processes that are killed, and agents that really learn
    *("cli/test_damage.py", "cli/test_hostile.py", "fuzz/test_fuzz.py", "soak/test_soak.py"),
    *("cli/test_processes.py", "rl/test_kill.py", "rl/test_learning.py", "training/test_kill.py"),
    # a wheel as pip installs it
    "native/test_wheel.py",
    # numbers and folders of other times
    *("golden/test_methods.py", "golden/test_two_one_one.py", "golden/test_version_0_1_0.py"),
    # what is no module of the package: the house itself, its documents, benchmarks and results
    *("test_benchmarks.py", "test_docs.py", "test_examples.py", "test_growth.py", "test_house.py"),
    *("test_results.py", "test_site.py", "test_unused.py", "test_whole_run.py", "test_zoo.py"),
}
"""Files of tests from end to end, which mirror no module."""

SHARE_MIRRORED = 0.75
"""Of all modules, at least; raise it when there are more."""


def modules() -> set[Path]:
    """All modules and packages, as `methods/ewc`."""
    package = ROOT / "src" / "uclearn"
    found = {path.relative_to(package).with_suffix("") for path in package.rglob("*.py")}
    inits = {path for path in found if path.name in ("__init__", "__main__")}
    return (found - inits) | {path.parent for path in inits if path.parent != Path()}


def mirrored_by(test: Path, known: set[Path]) -> Path | None:
    """The module that a file of tests is about: `a/test_b.py` and `a/test_b_more.py` are about
    `a/b`, and so is any file in a folder `a/b` of its own."""
    about = test.with_name(test.stem.removeprefix("test_"))
    choices = [about.with_name(about.name[:end]) for end in range(len(about.name), 0, -1)]
    for choice in choices:
        if choice in known and about.name[len(choice.name) :][:1] in ("", "_"):
            return choice
    own_folder = test.parent in known and (ROOT / "src/uclearn" / f"{test.parent}.py").exists()
    return test.parent if own_folder else None


def test_tests_lie_where_what_they_test_lies() -> None:
    folder, known = ROOT / "tests", modules()
    tests = {path.relative_to(folder) for path in folder.rglob("test_*.py")}
    about = {test: mirrored_by(test, known) for test in tests}
    astray = {test.as_posix() for test, module in about.items() if module is None}
    assert astray == WHOLE, "a new file of tests is named after its module, or is listed as whole"

    files = {module for module in known if (ROOT / f"src/uclearn/{module}.py").exists()}
    missing = sorted(str(module) for module in files - set(about.values()))
    share = 1 - len(missing) / len(files)
    assert share >= SHARE_MIRRORED, f"{share:.0%} are mirrored; without a file: {missing}"
