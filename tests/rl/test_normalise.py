"""Running statistics against numpy over all data at once."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uclearn.rl.normalise import Normaliser, RunningMoments
from uclearn.storage.checkpoint import load, save


def numbers(*shape: int, seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(3, 2, shape).astype(np.float32)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**32))
def test_moments_are_those_of_all_data_at_once(sizes: list[int], seed: int) -> None:
    data = np.random.default_rng(seed).normal(1e3, 1e-1, (sum(sizes), 4))
    moments = RunningMoments((4,))
    for batch in np.split(data, np.cumsum(sizes)[:-1]):
        moments.update(batch)
    assert moments.count == len(data)
    np.testing.assert_allclose(moments.mean, data.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(moments.variance, data.var(axis=0), rtol=1e-7, atol=1e-20)


def test_before_anything_is_seen_nothing_changes() -> None:
    raw = numbers(5, 3)
    fresh = Normaliser(3)
    np.testing.assert_allclose(fresh.observations(raw), raw, rtol=1e-7)
    np.testing.assert_allclose(fresh.rewards(raw[0]), raw[0], rtol=1e-7)


def test_observations_have_zero_mean_and_unit_variance_and_are_clipped() -> None:
    batches = numbers(10, 20, 3)
    normaliser = Normaliser(3)
    for batch in batches:
        normaliser.observe(batch)
    flat = normaliser.observations(batches.reshape(-1, 3))
    assert flat.dtype == np.float32
    np.testing.assert_allclose(flat.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(flat.std(axis=0), 1, rtol=1e-6)
    assert normaliser.observations(np.array([[1e9, -1e9, 3]], np.float32))[0, :2].tolist() == [
        10,
        -10,
    ]


def test_rewards_are_divided_by_the_spread_of_discounted_returns() -> None:
    """The returns are added up by hand here, episode by episode."""
    steps, count, discount = 12, 2, 0.9
    rewards = numbers(steps, count)
    ended = np.zeros((steps, count), np.bool_)
    ended[4, 0] = ended[7, 1] = True
    normaliser = Normaliser(1, discount=discount)
    normaliser.observe(np.zeros((count, 1), np.float32))
    for paid, over in zip(rewards, ended, strict=True):
        normaliser.observe(np.zeros((count, 1), np.float32), paid, over)
    returns = [
        sum(discount ** (t - s) * float(rewards[s, i]) for s in range(start, t + 1))
        for i, end in ((0, 5), (1, 8))
        for t in range(steps)
        for start in [0 if t < end else end]
    ]
    expected = rewards[0] / np.std(returns)
    np.testing.assert_allclose(normaliser.rewards(rewards[0]), expected, rtol=1e-6)
    huge = np.array([1e9, -1e9], np.float32)
    assert normaliser.rewards(huge).tolist() == [10, -10]


def test_a_new_start_begins_returns_anew() -> None:
    one, nothing = np.ones(1, np.float32), np.zeros((1, 1), np.float32)
    over = np.zeros(1, np.bool_)
    restarted, ended = Normaliser(1), Normaliser(1)
    for normaliser, ends in ((restarted, over), (ended, ~over)):
        normaliser.observe(nothing)
        normaliser.observe(nothing, 2 * one, over)
        normaliser.observe(nothing, 3 * one, ends)
        if normaliser is restarted:
            normaliser.observe(nothing)
        normaliser.observe(nothing, 5 * one, over)
    assert restarted.rewards(one) == ended.rewards(one)
    np.testing.assert_allclose(ended.rewards(one), 1 / np.std([2, 2 * 0.99 + 3, 5]), rtol=1e-6)


def test_frozen_means_unchanged() -> None:
    normaliser = Normaliser(3)
    normaliser.observe(numbers(4, 3), numbers(4), np.zeros(4, np.bool_))
    before = normaliser.observations(numbers(2, 3)), normaliser.rewards(numbers(2))
    normaliser.frozen = True
    normaliser.observe(numbers(4, 3, seed=1), numbers(4, seed=2), np.ones(4, np.bool_))
    after = normaliser.observations(numbers(2, 3)), normaliser.rewards(numbers(2))
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_saved_normaliser_goes_on_bit_for_bit(tmp_path: Path, frozen: bool) -> None:
    original, copy = Normaliser(3), Normaliser(3)
    over = np.array([True, False, False, True])
    original.observe(numbers(4, 3), numbers(4), over)
    original.frozen = frozen
    save(tmp_path / "state", original.state(), "normaliser")
    state = original.state()
    original.observe(numbers(4, 3, seed=1), numbers(4, seed=2), over)
    copy.load_state(load(tmp_path / "state", "normaliser"))
    assert copy.frozen == frozen
    copy.observe(numbers(4, 3, seed=1), numbers(4, seed=2), over)
    raw = numbers(9, 3, seed=3)
    assert np.array_equal(copy.observations(raw), original.observations(raw))
    assert np.array_equal(copy.rewards(raw), original.rewards(raw))
    assert state["running"].tolist() == [0, *numbers(4).astype(np.float64)[1:3].tolist(), 0]
