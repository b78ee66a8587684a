from __future__ import annotations

import pickle
from math import radians

import pytest
import torch
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.tasks.transforms import (
    AddChannel,
    Flatten,
    Jitter,
    Normalise,
    Permute,
    Then,
    Warp,
    recipes,
)

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


def recipe(angle: float = 0.0, right: float = 0.0, down: float = 0.0, picture: int = 0) -> Tensor:
    return torch.tensor([[float(picture), angle, right, down]])


def picture(side: int = 9) -> Tensor:
    return torch.randint(0, 256, (1, side, side), dtype=torch.uint8)


def test_the_empty_recipe_changes_nothing() -> None:
    original = torch.randint(0, 256, (3, 9, 9), dtype=torch.uint8)
    result = Warp(original)(torch.cat([recipe(picture=2), recipe(picture=0)]))
    assert torch.allclose(result, original[[2, 0]].float(), atol=1e-3)


def test_a_whole_shift_moves_the_pixels_and_lets_zeros_in() -> None:
    original = picture()
    result = Warp(original)(recipe(right=2, down=-1))[0]
    expected = torch.zeros(9, 9)
    expected[:-1, 2:] = original[0, 1:, :-2]  # two to the right, one up
    assert torch.allclose(result, expected, atol=1e-2)


def test_a_quarter_turn_is_torchs_rot90() -> None:
    original = picture()
    result = Warp(original)(recipe(angle=radians(90)))[0]
    # Rows run downwards, so a positive angle turns clockwise on the screen.
    assert torch.allclose(result, original[0].float().rot90(-1), atol=1e-2)


def test_a_turn_comes_before_the_shift() -> None:
    original = picture()
    both = Warp(original)(recipe(angle=radians(90), right=2))[0]
    turned = original[0].float().rot90(-1)
    assert torch.allclose(both[:, 2:], turned[:, :-2], atol=1e-2)


def test_half_a_pixel_is_the_mean_of_two() -> None:
    original = picture()
    result = Warp(original)(recipe(right=0.5))[0]
    expected = (original[0, :, :-1].float() + original[0, :, 1:].float()) / 2
    assert torch.allclose(result[:, 1:], expected, atol=1e-2)


def test_recipes_stay_in_their_ranges_fill_them_and_follow_the_seed() -> None:
    jitter = Jitter(copies=20, degrees=15, pixels=2)
    table = recipes(500, jitter, seed=0)
    assert table.shape == (500, 21, 4)
    assert torch.equal(table[:, :, 0], torch.arange(500.0)[:, None].expand(500, 21))
    assert torch.equal(table[:, 0, 1:], torch.zeros(500, 3))
    drawn = table[:, 1:, 1:].flatten(0, 1)
    for column, limit in enumerate((radians(15), 2.0, 2.0)):
        values = drawn[:, column]
        assert limit * 0.99 < float(values.abs().max()) <= limit
        # Evenly distributed: mean 0, variance limit^2 / 3, within five standard errors of 10,000.
        assert abs(float(values.mean())) < 5 * limit / (3 * 10_000) ** 0.5
        assert float(values.var()) == pytest.approx(limit**2 / 3, rel=0.05)
    assert torch.equal(recipes(500, jitter, seed=0), table)
    assert not torch.equal(recipes(500, jitter, seed=1), table)


def test_negative_jitter_is_refused() -> None:
    with pytest.raises(SettingError, match="`degrees` must not be negative, got -1"):
        Jitter(degrees=-1)
