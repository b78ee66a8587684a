from __future__ import annotations

from typing import Any

import pytest

from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS, WRAPPERS
from uclearn.paper.settings import WHOLE_TASK
from uclearn.runs.config import PRESETS
from uclearn.runs.prepare import make_network
from uclearn.runs.resolve import resolve, settable
from uclearn.runs.supervised import preset
from uclearn.tasks.benchmarks import BENCHMARKS, load_tasks

WRAPPED = [f"{'ucl' if wrapper == 'lwf' else 'vcl'}+{wrapper}" for wrapper in WRAPPERS]


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("which", PRESETS)
def test_every_benchmark_has_settings_for_every_method(name: str, which: str) -> None:
    for method in [*METHODS, *WRAPPED]:
        config = resolve(name, method, preset=which)
        assert config.changed == ()
        assert config.preset == which
        for key, (_, source) in preset(name, method, which).items():
            assert key in settable(method)
            assert source.startswith(("paper, ", "the authors' program", "the program of", "ours"))


# supplement 5.1.1 and section 4.1; fisher_batch, dropout and select_by: the authors' program
PAPER: list[tuple[str, str, dict[str, Any]]] = [
    ("permuted-mnist", "ucl", {"ucl.beta": 0.03, "ucl.sigma": 0.06, "ucl.sampling": "weight"}),
    ("row-permuted-mnist", "ucl", {"ucl.beta": 0.02, "network.hidden": (400, 400)}),
    ("split-mnist", "ucl", {"ucl.beta": 0.0001, "network.hidden": (256, 256)}),
    ("split-notmnist", "ucl", {"ucl.beta": 0.001, "network.hidden": (150,) * 4}),
    ("split-cifar100", "ucl", {"ucl.beta": 0.002, "ucl.ratio": 0.125, "ucl.lr_sigma": 0.01}),
    ("split-cifar10-100", "ucl", {"ucl.beta": 0.0002, "ucl.alpha": 0.3, "ucl.sigma": None}),
    ("omniglot", "ucl", {"ucl.beta": 0.00001, "ucl.ratio": 0.5, "ucl.lr_sigma": 0.02}),
    ("omniglot", "ucl", {"data.split_after_augmentation": True, "ucl.means": "draw"}),
    ("permuted-mnist", "ucl", {"plan.epochs": 100, "plan.patience": 5, "plan.factor": 3.0}),
    ("permuted-mnist", "ucl", {"plan.select_by": "likelihood", "plan.batch_size": 256}),
    (
        "permuted-mnist",
        "ewc",
        {"ewc.strength": 400.0, "ewc.fisher_batch": 20, "ewc.fisher_dropout": True},
    ),
    ("permuted-mnist", "ewc", {"network.dropout": 0.5, "plan.select_by": "penalised"}),
    (
        "omniglot",
        "ewc",
        {"ewc.strength": 100000.0, "ewc.fisher_batch": 20, "ewc.fisher_dropout": True},
    ),
    ("split-notmnist", "si", {"si.strength": 0.3, "si.damping": 0.001}),
    ("split-cifar10-100", "si", {"si.strength": 0.7, "si.damping": 0.01}),
    ("split-mnist", "hat", {"hat.strength": 0.75, "plan.optimizer": "sgd", "plan.lr": 0.05}),
    ("split-mnist", "hat", {"network.dropout": 0.2, "network.input_dropout": 0.5}),
    ("permuted-mnist", "vcl", {"plan.epochs": 200, "plan.batch_size": 256, "vcl.samples": 10}),
    ("split-mnist", "vcl", {"plan.epochs": 120, "plan.batch_size": WHOLE_TASK}),
    ("permuted-mnist", "vcl+coreset", {"coreset.size": 200}),
    ("split-mnist", "vcl+coreset", {"coreset.size": 40}),
]


@pytest.mark.parametrize(("name", "method", "values"), PAPER)
def test_the_preset_paper_has_the_papers_values(
    name: str, method: str, values: dict[str, Any]
) -> None:
    found = {key: value for key, (value, _) in preset(name, method, "paper").items()}
    assert {key: found[key] for key in values} == values


def test_the_published_strength_never_meets_the_exact_fisher() -> None:
    for name in BENCHMARKS:
        values = preset(name, "ewc", "paper")
        if values["ewc.strength"][1] == "paper, supplement 5.1.1":
            assert values["ewc.fisher_batch"][0] == 20
            assert values["ewc.fisher_dropout"][0] is True


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"`preset` must be one of default, best, paper, got 'worst'."
    ):
        preset("split-mnist", "ucl", "worst")


def test_networks_can_start_as_torch_has_them_and_runs_of_before_keep_their_names() -> None:
    he, torchs = (
        resolve("permuted-mnist", "ewc", preset="paper", overrides={"network.start": start})
        for start in ("he", "torch")
    )
    assert he.document()["network"].keys() == {"hidden", "dropout", "input_dropout"}
    assert torchs.document()["network"]["start"] == "torch"
    tasks = load_tasks("permuted-digits", seed=0, tasks=2)
    drawn = make_network("permuted-digits", torchs.network, tasks, seed=0)
    plain = make_network("permuted-digits", he.network, tasks, seed=0)
    bias, none = (
        max(float(p.detach().abs().max()) for n, p in each.named_parameters() if n.endswith("bias"))
        for each in (drawn, plain)
    )
    assert bias > 0
    assert none == 0
