"""Users teach conversion their own layers and normalisations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn.errors import SettingError, UnsupportedLayerError
from uclearn.gaussian import (
    GaussianLayer,
    convert,
    export,
    register_layer,
    register_norm,
    survey,
)
from uclearn.gaussian.kinds import GAUSSIAN, NORMS
from uclearn.gaussian.layers import GaussianLinear


@pytest.fixture(autouse=True)
def _forget_what_was_registered() -> Iterator[None]:
    before = [(table, dict(table)) for table in (GAUSSIAN, NORMS)]
    yield
    for table, own in before:
        table.clear()
        table.update(own)  # type: ignore[arg-type]


class Cosine(nn.Linear):
    """A user's layer: a linear layer on inputs of length 1."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(F.normalize(input, dim=-1))


class GaussianCosine(GaussianLinear, Cosine):
    def apply_weight(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, *others: object
    ) -> Tensor:
        return F.linear(F.normalize(input, dim=-1), weight, bias)


class Centre(nn.LayerNorm):
    """A user's normalisation."""


def test_a_registered_layer_converts_and_exports() -> None:
    model, x = nn.Sequential(Cosine(4, 3), nn.Tanh(), nn.Linear(3, 2)), torch.randn(5, 4)
    with pytest.raises(UnsupportedLayerError, match=r"0 \(Cosine\): a subclass of Linear"):
        convert(model, sigma=0.1)
    register_layer(Cosine, GaussianCosine)
    noisy = convert(model, sigma=0.1)
    assert type(noisy.get_submodule("0")) is GaussianCosine
    assert type(noisy.get_submodule("2")) is GaussianLinear
    assert torch.equal(noisy.eval()(x), model(x))
    assert not torch.equal(noisy.train()(x), model(x))
    plain = export(noisy)
    assert type(plain.get_submodule("0")) is Cosine
    assert torch.equal(plain(x), model(x))


def test_registration_is_by_exact_type() -> None:
    class CosineAgain(Cosine):
        pass

    register_layer(Cosine, GaussianCosine)
    with pytest.raises(UnsupportedLayerError, match=r"0 \(CosineAgain\): a subclass of"):
        convert(nn.Sequential(CosineAgain(2, 2)), sigma=0.1)


def test_what_is_registered_must_be_gaussian_and_of_the_plain_class() -> None:
    class Unrelated(GaussianLayer, nn.Bilinear):
        pass

    text = (
        r"`converted` must be a subclass of GaussianLayer and of Cosine, got Unrelated\. Write "
        r"`class Unrelated\(GaussianLayer, Cosine\)`\."
    )
    with pytest.raises(SettingError, match=text):
        register_layer(Cosine, Unrelated)
    with pytest.raises(SettingError, match="got Cosine"):
        register_layer(Cosine, Cosine)  # type: ignore[arg-type]


def test_a_registered_norm_is_followed() -> None:
    model = nn.Sequential(nn.Linear(4, 3), Centre(3))
    with pytest.raises(UnsupportedLayerError, match=r"1 \(Centre\): no Gaussian version"):
        convert(model, sigma=0.1)
    register_norm(Centre)
    found = survey(convert(model, sigma=0.1))
    assert list(found.norms) == ["1"]
    assert type(export(convert(model, sigma=0.1)).get_submodule("1")) is Centre


def test_nothing_registered_here_outlives_its_test() -> None:
    found = survey(nn.Sequential(Cosine(2, 2), Centre(2)))
    assert len(found.problems) == 2
