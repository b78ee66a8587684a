from __future__ import annotations

import pytest
from torch import nn

from uclearn.errors import SettingError
from uclearn.methods.facts import Sizes
from uclearn.methods.registry import METHODS
from uclearn.networks import MultiHead
from uclearn.paper.numbers import PARAMETERS
from uclearn.runs.params import count, expected, methods_with_formula, parameter_table, sizes_with
from uclearn.runs.resolve import resolve
from uclearn.tasks.benchmarks import BENCHMARKS, benchmark

# Plain networks by count (paper's Table 1: 478K, 270K, 187K, 839K; Omniglot's 1773K is without
# any bias), 3x for EWC and SI, 4x for VCL, embeddings of 10 tasks x 800 nodes for HAT.
EXACT = {
    ("permuted-mnist", "finetuning"): 478_410,
    ("permuted-mnist", "ewc"): 3 * 478_410,
    ("permuted-mnist", "si"): 3 * 478_410,
    ("permuted-mnist", "vcl"): 4 * 478_410,
    ("permuted-mnist", "hat"): 478_410 + 10 * 800,
    ("permuted-mnist", "ucl"): 2 * (478_410 + 810),
    ("split-mnist", "finetuning"): 269_322,
    ("split-mnist", "vcl"): 4 * 269_322,
    ("split-notmnist", "finetuning"): 187_210,
    ("split-notmnist", "hat"): 187_210 + 5 * 600,
    ("split-cifar10-100", "finetuning"): 839_822,
    ("omniglot", "finetuning"): 1_774_999,
}


@pytest.mark.parametrize(("name", "method"), EXACT)
def test_counts_are_exact(name: str, method: str) -> None:
    assert count(name, method).kept == EXACT[name, method]


def test_the_papers_ucl_has_an_uncertainty_for_each_bias() -> None:
    assert count("permuted-mnist", "ucl", {"ucl.noisy_bias": True}).kept == 960_060


@pytest.mark.parametrize("name", ["split-mnist", "split-notmnist"])
def test_the_table_agrees_with_the_papers_to_one_percent(name: str) -> None:
    printed = PARAMETERS[name]
    for row in parameter_table(name):
        if row.method in printed and "hold=outputs" not in row.label:  # which is not the paper's
            assert row.footprint.kept == pytest.approx(1000 * printed[row.method], rel=0.01)


def test_to_hold_outputs_costs_more_than_the_papers_ucl_and_about_as_much_as_ewc() -> None:
    """On Split MNIST: blocks of 784 and 256 inputs, and the mean of each; all products of the 256
    features."""
    kept = {row.label: row.footprint.kept for row in parameter_table("split-mnist")}
    blocks = 4 * 196**2 + 256**2
    assert kept["ucl, hold=outputs"] == kept["ucl"] + blocks + 784 + 256 + 256**2
    assert kept["ucl, hold=outputs"] < 1.03 * kept["ewc"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("method", methods_with_formula())
def test_formulas_say_what_is_counted(name: str, method: str) -> None:
    assert expected(method, _sizes(name)) == count(name, method)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_so_do_those_of_variants(name: str) -> None:
    found = count(name, "ucl", {"ucl.hold": "outputs", "ucl.heads_follow": True})
    assert expected("ucl", _sizes(name), "hold=outputs") == found


def _sizes(name: str) -> Sizes:
    """Of the benchmark's network."""
    make = benchmark(name).network
    if make is None:
        return sizes_with(name, resolve(name, "finetuning").network.hidden)
    network = make(0)
    assert isinstance(network, MultiHead)
    layers = [m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    nodes = sum(len(layer.weight) for layer in layers)
    own = [(network.features + 1) * classes for classes in benchmark(name).classes]
    return Sizes(
        shared=sum(p.numel() for p in network.parameters()),
        nodes=nodes,
        hidden=nodes,
        head=own[-1],
        heads=sum(own),
        tasks=len(own),
        layers=tuple((layer.weight[0].numel(), len(layer.weight)) for layer in layers),
        features=network.features,
    )


def test_a_network_of_any_size_needs_no_memory() -> None:
    rows = {row.label: row.footprint for row in parameter_table("permuted-mnist", [10**6] * 100)}
    plain = rows["finetuning"].kept
    assert plain == 784 * 10**6 + 99 * 10**12 + 10**7 + 100 * 10**6 + 10
    assert rows["ewc"].kept == 3 * plain
    assert rows["ucl"].kept == 2 * (plain + 100 * 10**6 + 10)
    blocks = 784**2 + 99 * 10**12 + 15625 * 64**2
    assert rows["ucl, hold=outputs"].kept == rows["ucl"].kept + blocks + 784 + 100 * 10**6


def test_convolutional_networks_have_no_other_widths() -> None:
    with pytest.raises(SettingError, match="must be left as it is for omniglot"):
        parameter_table("omniglot", [10])


def test_what_has_no_formula_is_refused_by_name() -> None:
    with pytest.raises(SettingError, match="got 'magic'"):
        expected("magic", _sizes("split-mnist"))


def test_all_methods_have_a_formula() -> None:
    assert methods_with_formula() == list(METHODS)
