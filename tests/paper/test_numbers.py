"""The paper's numbers, against its text."""

import pytest

from uclearn.paper.numbers import PARAMETERS, published

# "Uncertainty-based Continual Learning with Adaptive Regularization", section 4.1: every average
# accuracy that its text states.
STATED = {
    ("permuted-mnist", "ucl"): 0.945,
    ("permuted-mnist", "ewc"): 0.918,
    ("permuted-mnist", "si"): 0.911,
    ("permuted-mnist", "vcl"): 0.913,
    ("row-permuted-mnist", "ucl"): 0.865,
    ("split-mnist", "ucl"): 0.997,
    ("split-mnist", "hat"): 0.997,
    ("split-mnist", "si"): 0.990,
    ("split-mnist", "vcl+coreset"): 0.987,
    ("split-notmnist", "ucl"): 0.957,
    ("split-notmnist", "hat"): 0.952,
    ("split-notmnist", "vcl"): 0.901,
    ("split-notmnist", "vcl+coreset"): 0.937,
    ("split-cifar100", "ucl"): 0.634,
    ("split-cifar100", "ewc"): 0.605,
    ("split-cifar100", "si"): 0.600,
    ("split-cifar10-100", "ucl"): 0.732,
    ("omniglot", "ucl"): 0.839,
    ("omniglot", "ewc"): 0.681,
    ("omniglot", "si"): 0.742,
}


@pytest.mark.parametrize(("benchmark", "method"), STATED)
def test_what_the_text_states(benchmark: str, method: str) -> None:
    found = published(benchmark, method)
    assert found is not None
    assert found.accuracy == STATED[benchmark, method]
    assert found.source.startswith("main text, Figure")


def test_what_is_only_in_a_figure_has_words_and_no_number() -> None:
    found = published("row-permuted-mnist", "ewc")
    assert found is not None
    assert found.accuracy is None
    assert "lower than UCL" in found.words


def test_what_the_paper_did_not_run_has_nothing() -> None:
    assert published("permuted-digits", "ucl") is None
    assert published("permuted-mnist", "lwf") is None


def test_the_table_of_parameters_is_complete() -> None:
    """Table 1: five benchmarks; VCL and HAT were not run on the last two."""
    assert {name: len(row) for name, row in PARAMETERS.items()} == {
        "permuted-mnist": 6,
        "split-mnist": 6,
        "split-notmnist": 6,
        "split-cifar10-100": 4,
        "omniglot": 4,
    }
    assert PARAMETERS["permuted-mnist"]["ucl"] == 960


def test_vcl_was_trained_longer() -> None:
    number = published("permuted-mnist", "vcl")
    assert number is not None
    assert number.epochs == 200
