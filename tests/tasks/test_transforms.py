from __future__ import annotations

import pickle

import pytest
import torch

from uclearn.errors import SettingError
from uclearn.tasks.transforms import AddChannel, Flatten, Normalise, Permute, Then

BYTES = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8)


def test_normalise_is_the_formula() -> None:
    expected = (BYTES.double() / 255 - 0.1307) / 0.3081
    result = Normalise(0.1307, 0.3081)(BYTES)
    assert result.dtype == torch.float32
    assert torch.allclose(result.double(), expected, atol=1e-6)


def test_normalise_per_channel_is_the_formula_of_each_channel() -> None:
    result = Normalise((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), peak=16)(BYTES)
    for channel, (mean, std) in enumerate(((0.1, 0.4), (0.2, 0.5), (0.3, 0.6))):
        expected = (BYTES[:, channel].double() / 16 - mean) / std
        assert torch.allclose(result[:, channel].double(), expected, rtol=1e-6, atol=1e-5)


def test_normalise_leaves_what_is_stored_alone() -> None:
    floats = torch.ones(2, 3, 1, 1)
    Normalise((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))(floats)
    assert torch.equal(floats, torch.ones(2, 3, 1, 1))


def test_normalise_follows_the_default_type() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert Normalise()(BYTES).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (lambda: Normalise(std=0.0), r"`std` must be positive, got 0\.0"),
        (
            lambda: Normalise((0.0, 0.0), (1.0, -1.0)),
            r"`std` must be positive, got \(1\.0, -1\.0\)",
        ),
        (lambda: Normalise(peak=0), "`peak` must be positive, got 0"),
        (lambda: Normalise((0.1, 0.2), 0.3), "one number each or one per channel"),
    ],
)
def test_normalise_refuses_what_makes_no_sense(scale: object, message: str) -> None:
    assert callable(scale)
    with pytest.raises(SettingError, match=message):
        scale()


def test_permute_takes_feature_permutation_i_to_place_i() -> None:
    order = torch.randperm(48)
    result = Permute(order)(BYTES)
    for place in range(48):
        assert torch.equal(result[:, place], BYTES.flatten(1)[:, order[place]])


def test_shapes() -> None:
    assert Flatten()(BYTES).shape == (5, 48)
    assert AddChannel()(BYTES[:, 0]).shape == (5, 1, 4, 4)


def test_then_goes_from_first_to_last() -> None:
    order = torch.arange(48).flip(0)
    chain = Then((Normalise(), Permute(order)))
    assert torch.allclose(chain(BYTES), BYTES.float().flatten(1).flip(1) / 255)


def test_transforms_survive_pickling_for_loader_workers() -> None:
    chain = Then((Normalise(0.5, 0.5), Permute(torch.randperm(48))))
    assert torch.equal(pickle.loads(pickle.dumps(chain))(BYTES), chain(BYTES))
