"""Stepping many environments: every number against a plain loop or a closed form."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rl.strange import HERE
from uclearn.errors import SettingError, TaskError
from uclearn.rl.environments import Environments
from uclearn.rl.simulators import Episode

pytestmark = pytest.mark.rl


def own_seed(seed: int, i: int) -> int:
    return int(np.random.SeedSequence([seed, i]).generate_state(1)[0])


def roll(environments: Environments, seed: int, steps: int, actions: int) -> NDArray[np.float32]:
    """(1 + steps, count, numbers): all that is shown and paid, from a reset on."""
    generator = np.random.default_rng(actions)
    shape = (environments.count, environments.action_size)
    shown = environments.reset(seed)
    nothing = np.zeros((len(shown), environments.observation_size + 3), np.float32)
    rows = [np.concatenate([shown, nothing], axis=1)]
    for _ in range(steps):
        step = environments.step(generator.uniform(-1, 1, shape))
        single = np.stack([step.rewards, step.terminated, step.truncated], axis=1)
        rows.append(np.concatenate([step.observations, single, step.final_observations], axis=1))
    return np.stack(rows)


def test_it_is_a_plain_loop_over_gymnasium() -> None:
    """Pendulum's limit of 200 steps is passed, so a reset is part of it."""
    actions = np.random.default_rng(0).uniform(-2, 2, (210, 3, 1)).astype(np.float32)
    with Environments("Pendulum-v1", count=3, workers=2) as environments:
        first = environments.reset(11)
        steps = [environments.step(action) for action in actions]
    for i in range(3):
        plain = gymnasium.make("Pendulum-v1")
        assert np.array_equal(first[i], plain.reset(seed=own_seed(11, i))[0])
        for step, action in zip(steps, actions, strict=True):
            final, reward, terminated, truncated, _ = plain.step(action[i])
            shown = plain.reset()[0] if terminated or truncated else final
            assert np.array_equal(step.observations[i], shown)
            assert np.array_equal(step.final_observations[i], final)
            assert step.rewards[i] == np.float32(reward)
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
        assert [bool(step.truncated[i]) for step in steps].index(True) == 199


@pytest.mark.parametrize(
    ("name", "terminated", "truncated"),
    [("Counter", True, False), ("Limited", False, True), ("Both", True, False)],
)
def test_an_end_and_a_limit_are_told_apart(name: str, terminated: bool, truncated: bool) -> None:
    with Environments(f"{HERE}:{name}-v0", count=2, workers=1) as environments:
        environments.reset()
        for steps in (1, 2):
            step = environments.step([[0.5, 0.0], [0.25, 0.0]])
            assert step.observations.tolist() == [[steps, 0, 0.5], [steps, 0, 0.25]]
            assert np.array_equal(step.observations, step.final_observations)
            assert not step.ended.any()
        step = environments.step([[0.5, 0.0], [0.25, 0.0]])
        assert step.observations.tolist() == [[0, 1, 0], [0, 1, 0]]
        assert step.final_observations.tolist() == [[3, 0, 0.5], [3, 0, 0.25]]
        assert step.terminated.tolist() == [terminated] * 2
        assert step.truncated.tolist() == [truncated] * 2
        assert environments.finished() == [Episode(1.5, 3), Episode(0.75, 3)]
        assert environments.finished() == []


def test_actions_are_clipped_to_their_own_bounds() -> None:
    """The first number lies within -1 and 1; it is what Counter shows and pays."""
    with Environments(f"{HERE}:Counter-v0", count=3, workers=1) as environments:
        environments.reset()
        assert environments.step([[5.0, 0.0], [-5.0, 0.0], [0.5, 1e9]]).rewards.tolist() == [
            1,
            -1,
            0.5,
        ]


def test_matrices_are_flattened() -> None:
    with Environments(f"{HERE}:Squared-v0", count=1, workers=1) as environments:
        assert (environments.observation_size, environments.action_size) == (3, 4)
        environments.reset()
        assert environments.step([[0.1, 0.2, 0.75, 0.4]]).observations.tolist() == [[1, 0, 0.75]]


def test_the_inactive_rest() -> None:
    with Environments(f"{HERE}:Counter-v0", count=3, workers=2) as environments:
        environments.reset()
        actions, active = np.full((3, 2), 0.5), np.array([True, False, True])
        for _ in range(3):
            step = environments.step(actions, active)
        assert step.observations.tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
        assert step.rewards.tolist() == [0.5, 0, 0.5]
        assert step.terminated.tolist() == [True, False, True]
        step = environments.step(actions, ~active)
        assert step.observations.tolist() == [[0, 1, 0], [1, 0, 0.5], [0, 1, 0]]
        assert not step.ended.any()
        for _ in range(2):
            environments.step(actions, ~active)
        assert environments.finished() == [Episode(1.5, 3)] * 3


@pytest.mark.parametrize(
    "name",
    [
        "HopperBulletEnv-v0",
        "HumanoidFlagrunBulletEnv-v0",
        "InvertedDoublePendulumBulletEnv-v0",
        "Hopper-v5",
        "MountainCarContinuous-v0",
    ],
)
def test_a_seed_means_the_same_bits_whatever_came_before(name: str) -> None:
    """However many workers there are, too."""
    with Environments(name, count=2, workers=1) as fresh:
        expected = roll(fresh, 5, 40, actions=0)
    with Environments(name, count=2, workers=2) as used:
        other = roll(used, 6, 25, actions=1)
        assert not np.array_equal(other, expected[:26])
        assert np.array_equal(roll(used, 5, 40, actions=0), expected)


def test_seeds_and_neighbours_start_differently() -> None:
    with Environments("Pendulum-v1", count=2, workers=1) as environments:
        default, zero, same, other = (
            environments.reset(),
            *(environments.reset(seed) for seed in (0, 3, 4)),
        )
    assert np.array_equal(default, zero)
    assert len(np.unique(np.concatenate([same, other]), axis=0)) == 4
    with Environments("Pendulum-v1", count=5, workers=2) as environments:
        assert np.array_equal(environments.reset(3)[:2], same)


def test_a_reset_forgets_the_running_episode() -> None:
    with Environments(f"{HERE}:Counter-v0", count=1, workers=1) as environments:
        environments.reset()
        environments.step([[1, 0]])
        environments.reset()
        for _ in range(3):
            environments.step([[0.5, 0]])
        assert environments.finished() == [Episode(1.5, 3)]


def test_what_was_given_is_not_changed_later() -> None:
    with Environments(f"{HERE}:Counter-v0", count=1, workers=1) as environments:
        environments.reset()
        step = environments.step([[1, 0]])
        kept = [field.copy() for field in step]
        environments.step([[0.5, 0]])
    assert all(np.array_equal(*pair) for pair in zip(step, kept, strict=True))


def test_use_out_of_order_is_refused() -> None:
    environments = Environments("Pendulum-v1", count=1, workers=1)
    with pytest.raises(TaskError, match=r"'Pendulum-v1' have not begun: call `reset` first"):
        environments.step([[0]])
    environments.close()
    environments.close()
    with pytest.raises(TaskError, match=r"'Pendulum-v1' are closed, by `close` or by an error"):
        environments.reset()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 2)), r"must have the shape \(2, 1\), a row per environment.*got \(2, 2\)"),
        (
            [[0], [np.nan]],
            r"must be finite, got nan as number 0 for environment 1 of 'Pendulum-v1'",
        ),
    ],
)
def test_actions_that_cannot_be_taken_are_refused_and_harm_nothing(
    actions: NDArray[np.float64], message: str
) -> None:
    with Environments("Pendulum-v1", count=2, workers=1) as environments:
        environments.reset()
        with pytest.raises(SettingError, match=message):
            environments.step(actions)
        assert environments.step(np.zeros((2, 1))).rewards.shape == (2,)


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="`count` must be at least 1, got 0"):
        Environments("Pendulum-v1", count=0)
    with pytest.raises(SettingError, match="`workers` must be at least 1, got -1"):
        Environments("Pendulum-v1", workers=-1)
    with (
        Environments("Pendulum-v1", count=1, workers=1) as environments,
        pytest.raises(SettingError, match=r"`seed` must be a whole number from 0 .* got -3"),
    ):
        environments.reset(-3)


def test_this_side_needs_neither_torch_nor_gymnasium() -> None:
    code = "import sys, uclearn.rl.environments; print(*{'torch', 'gymnasium'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"
