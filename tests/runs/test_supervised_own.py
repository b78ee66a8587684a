"""Runs of data of one's own: their configurations travel, and say what they must."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.tasks.own.files import blobs, machines, write_csv, write_npz
from uclearn.errors import SettingError
from uclearn.runs import Job, RunConfig, resolve, run
from uclearn.runs.prepare import prepare
from uclearn.storage.records import read_run
from uclearn.tasks.own.source import own_data

QUICK = {"plan.epochs": 1, "network.hidden": [4]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


def test_a_configuration_travels_to_other_processes_and_machines(tmp_path: Path) -> None:
    made = own_data(machines(tmp_path / "wear.csv"), drop=["colour"], test=0.25)
    config = resolve(made, "ucl", overrides=QUICK)
    assert RunConfig.from_json(config.to_json()) == config
    job = Job(config, tmp_path / "run")
    assert pickle.loads(pickle.dumps(job)) == job
    assert config.document()["source"]["asked"] == {
        "path": str(tmp_path / "wear.csv"),
        "drop": ["colour"],
        "test": 0.25,
    }


def test_where_the_data_lie_is_no_part_of_the_run(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "four.npz")
    before = resolve(own_data(path, split=2), "ewc", overrides=QUICK)
    moved = tmp_path / "there" / "four.npz"
    moved.parent.mkdir()
    path.rename(moved)
    after = resolve(own_data(moved, split=2), "ewc", overrides=QUICK)
    assert before != after
    assert before.folder_name() == after.folder_name()


def test_a_name_that_does_not_fit_its_source_is_refused(tmp_path: Path) -> None:
    document = resolve(own_data(write_npz(tmp_path / "a.npz"), split=2), "ewc").document()
    with pytest.raises(SettingError, match=r"`benchmark` must be a-\w+, as its `source` says"):
        RunConfig.from_document({**document, "benchmark": "split-digits"})


@pytest.mark.parametrize(
    ("network", "layers"), [("conv", "Conv2d"), ("resnet", "Residual"), ("mlp", "Flatten")]
)
def test_networks_for_pictures(tmp_path: Path, network: str, layers: str) -> None:
    import numpy as np

    x = np.random.default_rng(0).integers(0, 255, (40, 10, 10), dtype=np.uint8)
    made = own_data(write_npz(tmp_path / "p.npz", x=x, y=np.arange(40) % 4), split=2)
    hidden = [4] if network == "mlp" else []
    chosen = {"network.kind": network, "network.hidden": hidden}
    tasks, method = prepare(resolve(made, "ucl", overrides=chosen))
    assert tasks.input_shape == (1, 10, 10)
    kinds = {type(module).__name__ for module in method.modules()}
    assert any(layers in kind for kind in kinds)
    assert resolve(made, "ucl").network.kind == "conv"  # unless it is said otherwise


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"network.kind": "conv", "network.hidden": []}, "are no pictures, but of shape"),
        ({"network.kind": "conv"}, "neither widths nor dropout"),
        ({"network.kind": "cnn", "network.hidden": []}, "must be one of mlp, conv, resnet"),
    ],
)
def test_networks_that_do_not_fit(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    made = own_data(write_npz(tmp_path / "a.npz"), split=2)
    with pytest.raises(SettingError, match=words):
        resolve(made, "ewc", overrides=settings)


@pytest.mark.parametrize(
    ("each", "batch_size", "epochs"), [(30, 16, 100), (300, 32, 27), (3000, 64, 15)]
)
def test_few_examples_are_learned_in_small_batches(
    tmp_path: Path, each: int, batch_size: int, epochs: int
) -> None:
    """Two classes of a task, four fifths to train on: 8 batches of them or more, 400 steps."""
    x, y = blobs(each=each)
    plan = resolve(own_data(write_npz(tmp_path / "n.npz", x=x, y=y), split=2), "ucl").make_plan()
    assert (plan.batch_size, plan.epochs) == (batch_size, epochs)


def test_only_the_preset_by_rule_is_for_own_data(tmp_path: Path) -> None:
    made = own_data(write_npz(tmp_path / "a.npz"), split=2)
    with pytest.raises(SettingError, match="`preset` must be default for data of one's own"):
        resolve(made, "ucl", preset="paper")
    assert resolve(made, "ucl").plan.model_dump()["epochs"] == 100  # few examples, many epochs


def test_numbers_are_judged_by_the_variance_that_is_explained(tmp_path: Path) -> None:
    rows = [
        [size, city, 1000 * size + (50 if city == "b" else 0)]
        for city in ("a", "b")
        for size in range(60)
    ]
    path = write_csv(tmp_path / "houses.csv", ["size", "city", "price"], rows)
    made = own_data(path, target="price", task_column="city")
    chosen = {"plan.epochs": 40, "network.hidden": [16], "plan.batch_size": 8}
    folder = tmp_path / "run"
    summary = run(Job(resolve(made, "finetuning", overrides=chosen), folder))
    assert summary.average_accuracy is not None
    assert 0.9 < summary.average_accuracy <= 1
    first = next(e for e in read_run(folder).events if e["event"] == "evaluation")
    assert first["scores"][0] == pytest.approx(summary.accuracy_matrix[0][0])
