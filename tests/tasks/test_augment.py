from __future__ import annotations

from math import radians

import pytest
import torch
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.tasks.augment import Jitter, Warp, recipes


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
