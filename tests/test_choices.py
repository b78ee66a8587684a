"""What other packages announce by entry points is known everywhere, and no file of ours changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from uclearn.choices import Registry
from uclearn.cli.app import main
from uclearn.errors import SettingError
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


ROOT = Path(__file__).parents[1]
# -- methods -----------------------------------------------------------------------------------

TOY_METHOD = '''
import torch
from uclearn.methods.contract import Method
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.parts.anchors import AnchoredWeights, grow_anchors


class Toy(Method):
    """Every weight is held with the same strength."""

    facts = Facts(
        works_in_rl=True,
        search={"strength": Range(0.1, 10.0, log=True)},
        tried={"strength": (0.1, 1.0)},
        presets={"*": {"strength": 2.5}, "permuted-digits": {"strength": 3.5}},
        cost=lambda n: Cost(2 * n.plain, n.shared + n.head),
        grow=grow_anchors,
    )

    def __init__(self, model, example=None, *, strength: float = 1.0) -> None:
        super().__init__(model)
        self.strength = strength
        self.memory = AnchoredWeights(self.model)

    def penalty(self, step=None, **given):
        return self.memory.penalty(self.strength, False)

    def end_task(self, task=None, losses=None, *, inputs=None):
        for tensor in self.memory.importance.tensors():
            tensor.fill_(1.0)
        self.memory.remember()
'''
TOY_ENTRIES = """
[uclearn.methods]
toy = toy_methods:Toy
toy-broken = toy_methods_that_are_not_there:Toy
"""
SMALL = ["--tasks", "2", "--set", "plan.epochs=1", "--set", "network.hidden=[8]", "--quiet"]

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python_with_toys(tmp_path: Path) -> Typed:
    """Python beside a package in a folder of its own, as pip would leave it there."""
    place = tmp_path / "site"
    about = place / "toy_methods-1.0.dist-info"
    about.mkdir(parents=True)
    (place / "toy_methods.py").write_text(TOY_METHOD)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(TOY_ENTRIES)
    paths = [str(place), str(ROOT / "src"), str(ROOT)]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "400"}

    def run(*words: str, succeeds: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=known, capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == succeeds, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.mark.slow
def test_a_method_can_be_run_compared_swept_tuned_and_reported(
    python_with_toys: Typed, tmp_path: Path
) -> None:
    python_with_toys("-m", "uclearn", "run", "split-digits", "--method", "toy", *SMALL)
    methods = ["--methods", "finetuning,toy+replay", "--seeds", "1"]
    python_with_toys("-m", "uclearn", "compare", "split-digits", *methods, *SMALL)
    configs = [read_run(folder).config for folder in find_runs(tmp_path / "runs")]
    strengths = {one["method"]: one["settings"].get("toy", {}).get("strength") for one in configs}
    assert strengths == {"toy": 2.5, "finetuning": None, "toy+replay": 2.5}
    python_with_toys("-m", "uclearn", "report", "runs", "--out", "report.md")
    assert "| toy |" in (tmp_path / "report.md").read_text()
    python_with_toys(
        *("-m", "uclearn", "sweep", "split-digits", "--method", "toy"),
        *("--grid", "toy.strength=1,2", "--out", "swept", *SMALL),
    )
    assert len(find_runs(tmp_path / "swept")) == 2
    python_with_toys(
        *("-m", "uclearn", "tune", "split-digits", "--method", "toy", "--trials", "2", *SMALL)
    )
    assert "toy" in (tmp_path / "tuning" / "split-digits-toy.toml").read_text()


@pytest.mark.slow
def test_a_method_is_counted_preset_and_looked_at_by_the_doctor(python_with_toys: Typed) -> None:
    said = python_with_toys("-m", "uclearn", "presets", "permuted-digits", "--method", "toy").stdout
    assert "3.5" in said
    assert "toy itself" in said
    counted = [*("-m", "uclearn", "params", "split-mnist", "--json")]
    assert '"method": "toy"' in python_with_toys(*counted).stdout
    assert '"method": "toy"' in python_with_toys(*counted, "--hidden", "8192x16").stdout
    found = python_with_toys("-m", "uclearn", "doctor", succeeds=False).stdout
    assert "method toy" in found
    assert "acts, and holds what it has learned" in found
    # one that cannot be imported is named, and in nobody's way
    assert "method toy-broken" in found
    assert "No module named 'toy_methods_that_are_not_there'" in found
    broken = python_with_toys(
        "-m", "uclearn", "run", "--method", "toy-broken", *SMALL, succeeds=False
    )
    assert "toy-methods announces 'toy-broken' (uclearn.methods)" in broken.stderr


@pytest.mark.slow
@pytest.mark.rl
def test_a_method_learns_to_act(python_with_toys: Typed, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    plan = {
        "steps_per_task": 256,
        "environments": 2,
        "rollout_steps": 64,
        "epochs": 1,
        "evaluation_episodes": 1,
    }
    small = [word for key, value in plan.items() for word in ("--set", f"plan.{key}={value}")]
    here = "tests.rl.little:Aim-v0,tests.rl.little:Turn-v0"
    python_with_toys("-m", "uclearn", "rl", "run", here, "--method", "toy", *small, "--quiet")
    (folder,) = find_runs(tmp_path / "runs")
    assert read_run(folder).config["method"] == "toy"


@pytest.mark.slow
def test_a_learner_learns_grows_and_looks_for_settings_by_a_method_of_another_package(
    python_with_toys: Typed,
) -> None:
    code = """
import torch
from uclearn import Learner
from uclearn.live.suggest import suggest
from uclearn.networks import mlp
from uclearn.training import Plan

x = torch.cat([torch.randn(40, 2) - 3, torch.randn(40, 2) + 3])
y = torch.arange(80) // 40
plan = Plan(epochs=2, batch_size=8, lr=0.01)
learner = Learner(mlp(2, (8,), None), "toy", plan=plan, strength=0.5)
learner.learn((x, y), name="january")
learner.widen(4)
learner.learn((x, y), name="february")
answer = learner.predict(x, task="january")
print(type(learner.method).__name__, learner.method.strength, answer.labels.shape)
learner.save("learner")
print(len(Learner.load("learner").tasks))
print(suggest(mlp(2, (8,), None), [(x, y), (x, y)], "toy", runs=4, plan=plan).settings)
"""
    said = python_with_toys("-c", code).stdout
    assert "Toy 0.5 torch.Size([80])\n2\n{'strength':" in said
