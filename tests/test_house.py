"""The rules of the house: who may import whom, what an import costs, what is in the wheel."""

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
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("uclearn-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        digits = archive.read("uclearn/data/digits.csv.gz")
    assert digits == (ROOT / "src/uclearn/data/digits.csv.gz").read_bytes()
    assert {"uclearn/py.typed", "uclearn/data/README.md"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {
        "uclearn",
        f"uclearn-{PROJECT['version']}.dist-info",
    }
