"""What conversion cannot handle, it names: all of it, with the reason and the remedy."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import GaussianLayer, convert, survey


class Scaled(nn.Linear):
    """A subclass, which may compute anything."""


class Bare(nn.Module):
    """A network with a parameter of its own beside its layers."""

    def __init__(self, trainable: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.shift = nn.Parameter(torch.ones(4), requires_grad=trainable)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x) + self.shift)
        return out


def refusal(model: nn.Module) -> list[str]:
    with pytest.raises(UnsupportedLayerError) as caught:
        convert(model, sigma=0.1)
    title, *lines = str(caught.value).split("\n- ")
    assert title == "This model cannot be converted as it is:"
    assert lines[-1].endswith(".")
    lines[-1] = lines[-1].removesuffix(".")
    return lines


UNKNOWN = (
    "no Gaussian version of it is known. Write it with Linear and Conv layers, register one with "
    "uclearn.gaussian.register_layer (or register_norm), or name it in `plain`"
)


def test_everything_that_stands_against_it_is_listed_at_once() -> None:
    tied = nn.Linear(6, 6)
    tied.weight = nn.Parameter(torch.randn(6, 6))
    untied = nn.Linear(6, 6)
    untied.weight = tied.weight
    model = nn.Sequential(
        nn.Linear(4, 6),
        nn.LSTM(6, 6),
        nn.Sequential(nn.MultiheadAttention(6, 2), nn.PReLU()),
        nn.LazyLinear(5),
        Bare(trainable=True),
        Scaled(3, 3),
        tied,
        untied,
        nn.Embedding(4, 2, max_norm=1.0),
        nn.Embedding(4, 2, sparse=True),
        nn.Bilinear(2, 2, 2),
    )
    subclass = (
        "a subclass of Linear, whose forward pass may differ. Register a Gaussian version with "
        "uclearn.gaussian.register_layer, or name it in `plain`"
    )
    outside = (
        "embeddings with `max_norm` or `sparse` change weights outside of the optimiser. Switch "
        "both off, or name it in `plain`"
    )
    assert refusal(model) == [
        f"1 (LSTM): {UNKNOWN}",
        f"2.0 (MultiheadAttention): {UNKNOWN}",
        f"2.0.out_proj (NonDynamicallyQuantizableLinear): {subclass}",
        f"2.1 (PReLU): {UNKNOWN}",
        "3 (LazyLinear): has no weights yet. Run the model once, then convert it",
        f"4 (Bare): {UNKNOWN}",
        f"5 (Scaled): {subclass}",
        "7.weight: the same tensor as 6.weight. Tied weights have two sets of nodes; untie them "
        "or name one of the modules in `plain`",
        f"8, 9 (Embedding): {outside}",
        f"10 (Bilinear): {UNKNOWN}",
    ]


def test_naming_them_plain_is_a_remedy_for_all() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.LSTM(6, 6), Scaled(3, 3), nn.PReLU())
    noisy = convert(model, sigma=0.1, plain=["1", "2", "3"])
    assert [isinstance(m, GaussianLayer) for m in noisy.children()] == [True, False, False, False]


def test_tied_weights_pass_when_one_of_the_modules_is_plain() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    assert len(refusal(model)) == 1
    noisy = convert(model, sigma=0.1, plain=["1"])
    assert noisy.get_parameter("1.weight") is noisy.get_parameter("0.weight")


def test_a_model_that_is_itself_refused_is_called_so() -> None:
    assert refusal(nn.LSTM(2, 2)) == [f"the model itself (LSTM): {UNKNOWN}"]
    lazy = "the model itself (LazyLinear): has no weights yet. Run the model once, then convert it"
    assert refusal(nn.LazyLinear(2)) == [lazy]


def test_a_lazy_layer_is_converted_once_it_has_weights() -> None:
    model, x = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()), torch.randn(3, 4)
    assert [line.partition(":")[0] for line in refusal(model)] == [
        "0 (LazyLinear)",
        "1 (LazyBatchNorm1d)",
    ]
    model(x)
    noisy = convert(model, sigma=0.1)
    assert torch.equal(noisy.eval()(x), model.eval()(x))


@pytest.mark.parametrize("how", ["weight_norm", "spectral_norm", "prune"])
def test_a_weight_that_is_computed_by_a_hook_is_refused(how: str) -> None:
    """It would be neither drawn nor held: what learns is another tensor."""
    layer = nn.Linear(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the old spellings are deprecated
        if how == "prune":
            prune.random_unstructured(layer, "weight", 0.5)
        else:
            getattr(nn.utils, how)(layer)
    (line,) = refusal(nn.Sequential(layer))
    assert line == (
        "0 (Linear): its weight is no parameter but computed before each use (weight_norm, "
        "spectral_norm, pruning). Make it permanent (remove_weight_norm, prune.remove), or name "
        "it in `plain`"
    )


def test_parametrised_layers_are_refused() -> None:
    for bias in (True, False):
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3, bias=bias))
        assert refusal(nn.Sequential(layer))[-1].startswith("0.parametrizations.weight")


def test_frozen_layers_stay_plain() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.LSTM(3, 2))
    model[0].requires_grad_(False)
    model[2].requires_grad_(False)
    noisy = convert(model, sigma=0.1)
    assert [type(m).__name__ for m in noisy] == ["Linear", "GaussianLinear", "LSTM"]  # type: ignore[attr-defined]
    assert list(survey(model).opaque) == ["0", "2"]


def test_tied_weights_that_are_frozen_are_no_problem() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    assert survey(model).problems == []


def test_a_frozen_parameter_beside_layers_that_learn_hides_nothing() -> None:
    """It is a constant of the network; the layers around it are converted and followed."""
    found = survey(Bare(trainable=False))
    assert list(found.layers) == ["first", "second"]
    assert not found.opaque
    assert not found.problems


@pytest.mark.parametrize("model", [nn.Sequential(nn.ReLU(), nn.Flatten()), nn.BatchNorm1d(3)])
def test_a_model_without_convertible_layers_is_refused(model: nn.Module) -> None:
    with pytest.raises(UnsupportedLayerError) as caught:
        convert(model, sigma=0.1)
    assert str(caught.value) == (
        "This model has no layer that could be made Gaussian. Known layers: Linear, Conv1d, "
        "Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Embedding. Frozen "
        "layers (requires_grad=False) and those named in `plain` do not count."
    )


@pytest.mark.parametrize("plain", [(), ("",)])
def test_nor_does_a_frozen_or_plain_one_count(plain: tuple[str, ...]) -> None:
    model = nn.Sequential(nn.Linear(2, 2)).requires_grad_(bool(plain))
    with pytest.raises(UnsupportedLayerError, match="has no layer that could be made Gaussian"):
        convert(model, sigma=0.1, plain=plain)
