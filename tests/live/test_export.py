"""What is exported computes what the method predicts, here and in other engines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from tests.surgery.networks import build
from uclearn import Method
from uclearn.errors import SettingError, TaskError, UnsupportedLayerError
from uclearn.live import formats
from uclearn.live.export import Exported, export, parameters, speed_up
from uclearn.methods.registry import METHODS
from uclearn.methods.registry import build as build_method
from uclearn.methods.replay import WithReplay
from uclearn.networks import MultiHead, mlp, run
from uclearn.surgery.prune import Surgeon, mean_scores
from uclearn.tasks import Data, TaskSequence
from uclearn.tasks.benchmarks import load_tasks
from uclearn.topology import node_count
from uclearn.training import Plan, learn

SETTINGS: dict[str, dict[str, Any]] = {"hat": {"tasks": 2}}


@pytest.mark.parametrize("name", METHODS)
def test_the_network_of_every_method_is_plain_and_predicts_the_same(name: str) -> None:
    """Or, where a method predicts with more than one network (VCL averages), it is refused."""
    net, x = build("mlp with heads")
    method = build_method(name, net, x[:1], {name: SETTINGS.get(name, {})})
    with method.inference(1) as network, torch.no_grad():
        expected = run(network, x, 1)
    if name == "vcl":
        with pytest.raises(TaskError, match="more than a network"):
            export(method, task=1, example=x)
        return
    exported = export(method, task=1, example=x)
    torch.testing.assert_close(exported.network(x), expected)
    kinds = {type(module).__module__ for module in exported.network.modules()}
    assert name == "hat" or all(kind.startswith("torch.") for kind in kinds)


def test_one_head_or_all_of_them_side_by_side() -> None:
    net, x = build("residual")
    assert isinstance(net, MultiHead)
    method = paper_ucl(net, x[:1])
    with torch.no_grad():
        every = torch.cat([net.eval()(x, task=task) for task in range(len(net.heads))], dim=1)
    torch.testing.assert_close(export(method, example=x).network(x), every)
    torch.testing.assert_close(export(method, task=0, example=x).network(x), every[:, :3])
    torch.testing.assert_close(export(method, task=1, example=x).network(x), every[:, 3:])


def test_statistics_per_task_go_with_the_head() -> None:
    net, x = build("residual")
    method = paper_ucl(net, x[:1], batch_norm="per-task")
    method.end_task(inputs=[x])
    method.end_task(inputs=[3 * x + 1])
    for task in (0, 1):
        with method.inference(task) as network, torch.no_grad():
            expected = run(network, x, task)
        torch.testing.assert_close(export(method, task=task, example=x).network(x), expected)
    for whole in (method, WithReplay(method)):
        with pytest.raises(SettingError, match="`task` must be given where batch norms keep"):
            export(whole, example=x)


def run_file(path: Path, x: Tensor) -> Tensor:
    """By the engine that the file is for, without this library."""
    if path.suffix == ".pt2":
        output: Tensor = torch.export.load(path).module()(x)
        return output
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return torch.from_numpy(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mlp with heads", "model.pt2"),
        ("residual", "model.pt2"),
        ("residual", "model.onnx"),
        ("cifar", "model.onnx"),
    ],
)
def test_a_pruned_network_runs_in_other_engines_on_batches_of_any_size(
    name: str, file: str, tmp_path: Path
) -> None:
    net, x = build(name)
    method = paper_ucl(net, x[:1])
    with torch.no_grad():
        labels = run(net.eval(), x).argmax(1)
    exported = export(method, tmp_path / "new" / file, task=0, prune=0.5, data=Data(x, labels))
    assert exported.removed
    assert exported.parameters_after < exported.parameters_before
    assert exported.path == tmp_path / "new" / file
    assert [p.name for p in (tmp_path / "new").iterdir()] == [file]  # no draft, no weights beside
    for size in (1, 2, 7):
        inputs = torch.randn(size, *x.shape[1:])
        with torch.no_grad():
            expected = exported.network(inputs)
        torch.testing.assert_close(run_file(exported.path, inputs), expected, rtol=1e-4, atol=1e-4)


class Pair(nn.Module):
    """Two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(2, 5), nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, a: Tensor, b: Tensor) -> Any:
        return self.out((self.left(a) + self.right(b)).relu())


@pytest.mark.slow
@pytest.mark.parametrize("file", ["model.pt2", "model.onnx"])
def test_several_inputs(file: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    example = (torch.randn(1, 2), torch.randn(1, 3))
    method = paper_ucl(Pair(), example)
    exported = export(method, tmp_path / file, example=example)
    assert exported.difference < 1e-5
    assert (tmp_path / file).stat().st_size > 0


# -- shrinking after learning ----------------------------------------------------------------


def learned(name: str, hidden: tuple[int, ...], **settings: Any) -> tuple[Method, TaskSequence]:
    tasks = load_tasks(name, seed=0, tasks=3)
    net = mlp(64, hidden, None if tasks.heads else 10)
    example = tasks[0].train.batch(torch.arange(1)).inputs
    method = paper_ucl(net, example, ratio=0.5, means="draw", **settings)
    learn(method, tasks, Plan(epochs=8, batch_size=64, lr=0.003))
    return method, tasks


def halves(tasks: TaskSequence) -> tuple[list[Data], list[Data]]:
    """Held-out digits, every other one: to choose by, and to be judged by."""
    found: tuple[list[Data], list[Data]] = ([], [])
    for task in tasks:
        assert isinstance(task.test, Data)
        for start, part in enumerate(found):
            part.append(task.test.subset(torch.arange(start, len(task.test), 2)))
    return found


def mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


def test_after_learning_digits_a_third_of_the_network_can_go() -> None:
    """Three pairs of digits, (200, 200) nodes. Chosen on one half of the held-out digits within 3
    points for each task, judged on the other half, where one digit in error is about 3 points.
    Measured when this was written: see the numbers in the assertions."""
    method, tasks = learned("split-digits", (200, 200), beta=0.01, lr_sigma=0.05)
    chosen, judged = halves(tasks)
    exported = export(method, prune=0.03, data=chosen)
    for before, after in zip(exported.score_before, exported.score_after, strict=True):
        assert after >= before - 0.03 - 1e-9
    assert exported.parameters_after < 0.67 * exported.parameters_before
    assert parameters(exported.network) == exported.parameters_after
    assert exported.network(torch.zeros(2, 64)).shape == (2, 6)

    def accuracy(network: nn.Module, data: Data, first: int) -> float:
        batch = data.batch(torch.arange(len(data)))
        with torch.no_grad():
            outputs = network(batch.inputs)[:, first : first + 2]
        return float((outputs.argmax(1) == batch.targets).float().mean())

    with method.inference() as lent:
        whole = mean_scores(lent, judged)
    small = tuple(accuracy(exported.network, data, 2 * t) for t, data in enumerate(judged))
    assert mean(small) >= mean(whole) - 0.03


@pytest.mark.slow
def test_uncertainty_knows_what_old_tasks_need_without_their_data() -> None:
    """Two fifths of the nodes go, measured on the last of three permutations of the digits alone.
    The old tasks keep more with strengths than without: 0.65 and 0.64 against 0.54 and 0.59 when
    this was written (whole networks: 0.80 and 0.79)."""
    kept = {"with": 0.0, "without": 0.0}
    for seed in (1, 3):
        tasks = load_tasks("permuted-digits", seed=seed, tasks=3)
        example = tasks[0].train.batch(torch.arange(1)).inputs
        net = mlp(64, (100, 100), 10, seed=seed)
        held = {"beta": 0.05, "lr_sigma": 0.02, "alpha": 0.1}
        method = paper_ucl(net, example, ratio=0.5, means="draw", seed=seed, **held)
        learn(method, tasks, Plan(epochs=8, batch_size=64, lr=0.003, seed=seed))
        last = tasks[2].train.batch(torch.arange(512)).inputs
        for which, strengths in (("with", method.strengths()), ("without", {})):
            surgeon = Surgeon(
                export(method, example=example).network, example, [last], strengths, ()
            )
            smaller = surgeon.without(surgeon.order[: len(surgeon.order) * 2 // 5])
            old = [task.test for task in tasks[:2] if task.test is not None]
            kept[which] += mean(mean_scores(smaller, old)) / 2
    assert kept["with"] > kept["without"] + 0.03


def test_one_task_needs_no_more_nodes_than_all_of_them() -> None:
    method, tasks = learned("split-digits", (64,), beta=0.01)
    chosen, _ = halves(tasks)
    one = export(method, task=2, prune=0.03, data=chosen[2])
    every = export(method, prune=0.03, data=chosen)
    assert sum(one.removed.values()) >= sum(every.removed.values())
    assert one.network(torch.zeros(2, 64)).shape == (2, 2)


def test_nothing_is_pruned_unless_asked() -> None:
    net, x = build("residual")
    exported = export(paper_ucl(net, x[:1]), example=x)
    assert exported.removed == {}
    assert exported.speed_up == 1.0
    assert exported.parameters_after == exported.parameters_before == parameters(net)


def test_the_method_is_left_as_it_was() -> None:
    net, x = build("residual")
    method = paper_ucl(net, x[:1])
    before = {key: value.clone() for key, value in method.state_dict().items()}
    export(method, prune=0.5, data=Data(x, torch.zeros(5, dtype=torch.int64)))
    assert all(torch.equal(before[key], value) for key, value in method.state_dict().items())
    assert method.model.training
    assert all(p.requires_grad for p in method.model.parameters())


def test_what_it_says_about_itself() -> None:
    told = Exported(nn.Linear(1, 1), 2000, 1000, {"0": 3}, (0.9,), (0.89,), 1.5, Path("a.onnx"), 0)
    assert str(told) == (
        "2,000 -> 1,000 parameters, 3 nodes removed, 1.50 times as fast; score on the held-out "
        "data: 0.9000 -> 0.8900; written to a.onnx, checked to 0.0e+00"
    )


# -- refusals --------------------------------------------------------------------------------


def test_without_the_extra_onnx_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    net, x = build("mlp")
    real = importlib.util.find_spec
    found = lambda name: None if name == "onnxscript" else real(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", found)
    with pytest.raises(SettingError) as refusal:
        export(paper_ucl(net, x[:1]), tmp_path / "model.onnx", example=x)
    assert "not installed: onnxscript" in str(refusal.value)
    assert 'pip install "uclearn[onnx]"' in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "model.bin"}, "`path` must end in .pt2 or .onnx where no `format` is given"),
        ({"path": "model", "format": "pickle"}, "`format` must be one of torch, onnx"),
        ({"prune": 0.1}, "`data` must be given where `prune` is"),
        ({"task": 5}, "`task` must be one of the heads (0 to 1), got 5"),
        ({"example": None}, "`example` must be given where `data` is not"),
    ],
)
def test_senseless_settings(arguments: dict[str, Any], words: str) -> None:
    net, x = build("mlp with heads")
    with pytest.raises(SettingError) as refusal:
        export(paper_ucl(net, x[:1]), **{"example": x, **arguments})
    assert words in str(refusal.value)


def test_a_network_without_heads_has_no_tasks() -> None:
    net, x = build("mlp")
    with pytest.raises(SettingError, match="the network has no heads: leave it out"):
        export(paper_ucl(net, x[:1]), task=1, example=x)
    with pytest.raises(TaskError, match="The network has no head yet"):
        export(paper_ucl(mlp(6, (3,), None), x[:1]), example=x)


class Undecided(nn.Linear):
    """What it does depends on the data: no program can be made of it."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight) if input.sum() > 0 else input[:, :2]


@pytest.mark.parametrize("file", ["model.pt2", "model.onnx"])
def test_what_cannot_be_written_leaves_what_was_there(file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text("the last good one")
    with pytest.raises(UnsupportedLayerError, match="cannot be written as"):
        export(Method(Undecided(3, 2)), path, example=torch.ones(2, 3))
    assert path.read_text() == "the last good one"
    assert [p.name for p in tmp_path.iterdir()] == [file]


class Forgetful(nn.Module):
    """Computes something else in each engine: the program keeps the first answer as a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.layer(x) + self.calls


def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedLayerError, match="The exported file computes something else"):
        formats.write(Forgetful().eval(), tmp_path / "model.pt2", "torch", torch.ones(2, 2))
    assert list(tmp_path.iterdir()) == []


def test_a_network_a_hundred_times_as_large_is_measured_as_slower() -> None:
    slow = nn.Sequential(nn.Linear(400, 2000), nn.Linear(2000, 400)).eval()
    fast = nn.Sequential(nn.Linear(400, 20), nn.Linear(20, 400)).eval()
    assert speed_up(slow, fast, (torch.randn(256, 400),)) > 3
    assert node_count(fast[0]) == 20
