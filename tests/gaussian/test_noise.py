"""Normal numbers: reproducible, independent, and normal."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.gaussian import Noise, NoiseKind
from uclearn.gaussian import noise as noise_module

kinds: list[NoiseKind] = ["table", "fresh"]
both_kinds = pytest.mark.parametrize("kind", kinds)
MANY = 1 << 16


def correlation(left: Tensor, right: Tensor) -> float:
    pair = torch.stack([left.flatten(), right.flatten()]).double()
    return torch.corrcoef(pair)[0, 1].item()


@settings(max_examples=40)
@given(
    seed=st.integers(-(2**63), 2**64),
    stream=st.integers(0, 2**20),
    before=st.integers(0, 5),
    kind=st.sampled_from(kinds),
)
def test_seed_stream_and_number_of_draws_say_it_all(
    seed: int, stream: int, before: int, kind: NoiseKind
) -> None:
    """Not what was drawn before, nor its shape, nor the dtype."""
    first, second = Noise(seed, stream, kind), Noise(seed, stream, kind)
    for size in range(before):
        first.normals((size + 1, 2))
        second.normals((3,), torch.float64)
    assert torch.equal(first.normals((4, 5)), second.normals((4, 5)))
    assert first.drawn == before + 1


@both_kinds
def test_a_state_set_back_gives_the_same_numbers_again(kind: NoiseKind) -> None:
    noise = Noise(seed=3, kind=kind)
    noise.normals((7,))
    state = noise.state
    assert state == (3, 1)
    ahead = [noise.normals((2, 3)) for _ in range(3)]
    noise.state = state
    assert all(torch.equal(noise.normals((2, 3)), numbers) for numbers in ahead)
    other = Noise(seed=99, kind=kind)
    other.state = state
    assert torch.equal(other.normals((2, 3)), ahead[0])


@both_kinds
@pytest.mark.parametrize(
    ("other", "skipped"),
    [((1, 0), 0), ((0, 1), 0), ((0, 0), 1), ((-1, 0), 0), ((2**32, 0), 0)],
    ids=["seed", "stream", "draw", "negative-seed", "large-seed"],
)
def test_neighbouring_sequences_are_unrelated(
    kind: NoiseKind, other: tuple[int, int], skipped: int
) -> None:
    """Correlation within five standard errors, 1/sqrt(n), of 0."""
    left, right = Noise(0, 0, kind), Noise(*other, kind)
    for _ in range(skipped):
        right.normals((1,))
    found = correlation(left.normals((MANY,)), right.normals((MANY,)))
    assert abs(found) < 5 / math.sqrt(MANY)


@both_kinds
def test_seed_and_stream_are_not_exchangeable(kind: NoiseKind) -> None:
    left, right = Noise(1, 2, kind).normals((MANY,)), Noise(2, 1, kind).normals((MANY,))
    assert abs(correlation(left, right)) < 5 / math.sqrt(MANY)


@both_kinds
def test_the_first_number_of_many_draws_is_random_too(kind: NoiseKind) -> None:
    """2,000 draws of one number each: standard normal and unrelated from draw to draw."""
    noise, count = Noise(5, kind=kind), 2000
    firsts = torch.cat([noise.normals((1,)) for _ in range(count)])
    assert abs(firsts.mean().item()) < 5 / math.sqrt(count)
    assert abs(firsts.var().item() - 1) < 5 * math.sqrt(2 / count)
    assert abs(correlation(firsts[:-1], firsts[1:])) < 5 / math.sqrt(count)


@both_kinds
@pytest.mark.parametrize("seed", [0, 1])
def test_the_numbers_are_standard_normal(kind: NoiseKind, seed: int) -> None:
    """Four moments of n numbers within five standard errors, 1/n, 2/n, 6/n and 24/n under the
    root; and the Kolmogorov-Smirnov distance below 1.95/sqrt(n), its 0.1 % point."""
    count = 1 << 19
    numbers = Noise(seed, kind=kind).normals((count,)).double()
    assert abs(numbers.mean().item()) < 5 * math.sqrt(1 / count)
    assert abs(numbers.var().item() - 1) < 5 * math.sqrt(2 / count)
    assert abs((numbers**3).mean().item()) < 5 * math.sqrt(15 / count)
    assert abs((numbers**4).mean().item() - 3) < 5 * math.sqrt(96 / count)
    steps = torch.arange(1, count + 1, dtype=torch.float64) / count
    distance = (torch.special.ndtr(numbers.sort().values) - steps).abs().max().item()
    assert distance < 1.95 / math.sqrt(count)


def test_both_signs_of_the_table_are_read() -> None:
    """With the sign of one draw turned, some other draw would be among its table's windows."""
    table = noise_module._table("cpu", torch.float32, False)
    signs = set()
    for seed in range(20):
        window = Noise(seed).normals((64,))
        for sign in (1, -1):
            places = (table[: -64 + 1] == sign * window[0]).nonzero().flatten().tolist()
            if any(torch.equal(table[p : p + 64], sign * window) for p in places):
                signs.add(sign)
    assert signs == {1, -1}


@both_kinds
def test_a_draw_larger_than_one_reading_has_unrelated_pieces(kind: NoiseKind) -> None:
    piece = noise_module._LARGEST_READ
    numbers = Noise(2, kind=kind).normals((2 * piece + 5,))
    assert torch.equal(numbers, Noise(2, kind=kind).normals((2 * piece + 5,)))
    first, second, rest = numbers[:piece], numbers[piece : 2 * piece], numbers[2 * piece :]
    assert abs(correlation(first, second)) < 5 / math.sqrt(piece)
    assert abs(numbers.mean().item()) < 5 / math.sqrt(len(numbers))
    assert abs(numbers.var().item() - 1) < 5 * math.sqrt(2 / len(numbers))
    assert rest.unique().numel() == 5


@both_kinds
@pytest.mark.parametrize("shape", [(7,), (7, 3), (8, 2, 2), (2, 12), (1, 2)])
def test_rows_are_those_of_the_whole_across_seams_too(
    monkeypatch: pytest.MonkeyPatch, kind: NoiseKind, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(noise_module, "_LARGEST_READ", 5)
    whole, noise = Noise(3, kind=kind).normals(shape), Noise(3, kind=kind)
    rows = noise.rows(shape)
    assert noise.drawn == 1
    for start in range(shape[0]):
        for end in range(start + 1, shape[0] + 1):
            assert torch.equal(rows[start:end], whole[start:end])
    assert torch.equal(rows[:], whole)


@both_kinds
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_are_as_asked(
    kind: NoiseKind, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    numbers = Noise(kind=kind).normals(shape, dtype)
    assert numbers.shape == shape
    assert numbers.dtype == dtype


@both_kinds
def test_torchs_own_generator_is_left_alone(kind: NoiseKind) -> None:
    before = torch.get_rng_state()
    Noise(kind=kind).normals((100,))
    assert torch.equal(torch.get_rng_state(), before)


@both_kinds
def test_a_first_draw_in_inference_mode_serves_training_later(kind: NoiseKind) -> None:
    noise_module._table.cache_clear()
    with torch.inference_mode():
        for seed in range(8):  # of both signs
            Noise(seed, kind=kind).normals((3,))
    for seed in range(8):
        x = torch.ones(3, requires_grad=True)
        numbers = Noise(seed, kind=kind).normals((3,))
        (x * numbers).sum().backward()
        assert x.grad is not None
        assert x.grad.equal(numbers)


def test_the_table_depends_on_no_default_of_torch() -> None:
    expected = Noise(4).normals((50,))
    noise_module._table.cache_clear()
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = Noise(4).normals((50,))
    finally:
        torch.set_default_dtype(default)
    assert torch.equal(found, expected)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SettingError, match=r"`noise` must be one of table, fresh, got 'pink'\."):
        Noise(kind="pink")  # type: ignore[arg-type]
