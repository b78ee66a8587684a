from __future__ import annotations

import pytest

from uclearn.experiments.params import count_kept, parameter_table
from uclearn.report.paper import PARAMETERS

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
    assert count_kept(name, method) == EXACT[name, method]


def test_the_papers_ucl_has_an_uncertainty_for_each_bias() -> None:
    assert count_kept("permuted-mnist", "ucl", {"ucl.noisy_bias": True}) == 960_060


@pytest.mark.parametrize("name", ["split-mnist", "split-notmnist"])
def test_the_table_agrees_with_the_papers_to_one_percent(name: str) -> None:
    printed = PARAMETERS[name]
    for row in parameter_table(name):
        if row.method in printed:
            assert row.kept == pytest.approx(1000 * printed[row.method], rel=0.01)
