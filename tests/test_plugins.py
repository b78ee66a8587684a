"""What other packages announce by entry points is known everywhere, and no file of ours changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from uclearn.cli.app import main
from uclearn.errors import SettingError
from uclearn.plugins import Registry
from uclearn.storage.records import find_runs, read_run
from uclearn.tasks.benchmarks import BENCHMARKS, benchmark, load_tasks

TOY = """
import torch
from uclearn.tasks import Data, permuted
from uclearn.tasks.benchmarks import Benchmark

def build(seed, folder, tasks):
    chance = torch.Generator().manual_seed(seed)
    inputs = torch.randn(60, 6, generator=chance)
    data = Data(inputs, (inputs[:, 0] > 0).long())
    return permuted(data, data, tasks, seed, name="toy-stripes")

TOY = Benchmark(
    name="toy-stripes", description="which side of a stripe", tasks=3, classes=(2, 2, 2),
    heads=False, input_shape=(6,), build=build, free=True,
    settings={"plan.epochs": 2, "plan.batch_size": 20, "network.hidden": (5,), "ewc.strength": 7.0,
              "other.setting": 1},
)
MISNAMED = TOY
NONSENSE = 3
"""
ANNOUNCED = {
    "toy-stripes": "toy_package:TOY",
    "toy-absent": "toy_package_that_is_not_there:TOY",
    "toy-misnamed": "toy_package:MISNAMED",
    "toy-nonsense": "toy_package:NONSENSE",
    "split-mnist": "toy_package:TOY",
}

Said = tuple[int, str, str]


@pytest.fixture
def toy_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package in a folder of its own, as pip would leave it there."""
    place = tmp_path / "site"
    about = place / "toy_package-1.0.dist-info"
    about.mkdir(parents=True)
    (place / "toy_package.py").write_text(TOY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {where}" for name, where in ANNOUNCED.items())
    (about / "entry_points.txt").write_text(f"[uclearn.benchmarks]\n{lines}\n")
    monkeypatch.syspath_prepend(str(place))
    known = Registry("uclearn.benchmarks", BENCHMARKS.ours, BENCHMARKS._check)
    monkeypatch.setattr(BENCHMARKS, "_loaded", known._loaded)
    monkeypatch.setitem(BENCHMARKS.__dict__, "announced", known.announced)
    yield
    sys.modules.pop("toy_package", None)


@pytest.fixture
def uclearn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Type a command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        shown = capfd.readouterr()
        return int(leaving.value.code or 0), shown.out, shown.err

    return typed


pytestmark = pytest.mark.usefixtures("toy_package")


def test_a_benchmark_is_found_beside_ours_and_imported_when_asked_for() -> None:
    assert list(BENCHMARKS)[-4:] == ["toy-absent", "toy-misnamed", "toy-nonsense", "toy-stripes"]
    assert "toy_package" not in sys.modules
    assert len(load_tasks("toy-stripes", seed=0, tasks=4)) == 4
    assert benchmark("toy-stripes").input_shape == load_tasks("toy-stripes", 0).input_shape


def test_our_names_cannot_be_taken() -> None:
    assert benchmark("split-mnist").data == ("mnist",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("toy-absent", "ModuleNotFoundError: No module named 'toy_package_that_is_not_there'"),
        ("toy-misnamed", "its `name` must be 'toy-misnamed' as announced, got 'toy-stripes'"),
        ("toy-nonsense", r"expected a uclearn\.tasks\.benchmarks\.Benchmark, got 3"),
    ],
)
def test_one_that_cannot_be_used_is_named_and_in_nobodys_way(name: str, why: str) -> None:
    with pytest.raises(SettingError, match=rf"^toy-package announces '{name}' .*{why}.*Repair or"):
        benchmark(name)
    entries, problems = BENCHMARKS.sound()
    assert {"toy-stripes", "permuted-digits"} <= entries.keys()
    assert len(problems) == 3


def test_every_command_knows_a_benchmark_of_another_package(uclearn: Callable[..., Said]) -> None:
    code, out, err = uclearn("benchmarks")
    assert code == 0
    assert "which side of a stripe" in out
    assert err.count("toy-package announces") == 3

    code, out, _ = uclearn("presets", "toy-stripes", "--method", "ewc")
    assert code == 0
    assert "announced with the benchmark" in out
    assert "other.setting" not in out

    assert uclearn("run", "toy-stripes", "--method", "ewc", "--out", "runs")[0] == 0
    (folder,) = find_runs(Path("runs"))
    config = read_run(folder).config
    assert config["plan"]["epochs"] == 2
    assert config["network"]["hidden"] == [5]
    assert config["settings"]["ewc"]["strength"] == 7.0
    assert json.loads((folder / "summary.json").read_text())["average_accuracy"] > 0

    compared = ("compare", "toy-stripes", "--methods", "finetuning,ewc", "--seeds", "1")
    assert uclearn(*compared, "--out", "runs")[0] == 0
    assert len(find_runs(Path("runs"))) == 2

    code, out, _ = uclearn("params", "toy-stripes")
    assert code == 0
    assert "ucl" in out

    assert uclearn("report", "runs", "--out", "report.md")[0] == 0
    assert "toy stripes" in Path("report.md").read_text().lower()
