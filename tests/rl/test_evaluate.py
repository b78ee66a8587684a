"""Playing: returns against a plain loop, and which environments act."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.rl.small import SEQUENCE, SPACES, WIDTH, small_method, small_plan
from tests.rl.strange import HERE
from uclearn.errors import SettingError
from uclearn.gaussian import export
from uclearn.rl.environments import Environments
from uclearn.rl.evaluate import Evaluator, play, random_return
from uclearn.rl.normalise import Normaliser
from uclearn.rl.policy import view
from uclearn.rl.tasks import tasks_of

pytestmark = pytest.mark.rl


def swing(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Push along with the speed."""
    return 2 * np.sign(observations[:, 2:])


def test_returns_are_those_of_a_plain_loop() -> None:
    with Environments("Pendulum-v1", count=3) as environments:
        played = play(environments, swing, episodes=3, seed=8)
    for i, earned in enumerate(played):
        plain, total, over = gymnasium.make("Pendulum-v1"), 0.0, False
        own_seed = int(np.random.SeedSequence([8, i]).generate_state(1)[0])
        shown, _ = plain.reset(seed=own_seed)
        while not over:
            shown, reward, terminated, truncated, _ = plain.step(swing(shown[None])[0])
            total += float(np.float32(reward))
            over = terminated or truncated
        assert earned == total


def test_each_environment_plays_one_episode_and_rests() -> None:
    """Counter's episodes last three steps, so whatever is earned later would show."""
    acted: list[float] = []

    def act(observations: NDArray[np.float32]) -> NDArray[np.float32]:
        acted.append(observations[0, 0])
        return np.array([[0.5, 0], [0.25, 0], [1.0, 0]], np.float32)

    with Environments(f"{HERE}:Counter-v0", count=3, workers=2) as environments:
        assert play(environments, act, episodes=2, seed=0).tolist() == [1.5, 0.75]
        assert acted == [0, 1, 2]
        assert environments.finished() == []
        rested = environments.step(np.zeros((3, 2)), np.array([False, False, True]))
        assert rested.observations[2].tolist() == [1, 0, 0]  # the third had not played


def test_the_same_seed_plays_the_same_again() -> None:
    with Environments("HopperBulletEnv-v0", count=2, workers=1) as environments:

        def stand(shown: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.tanh(shown[:, :3])

        first, other, again = (
            play(environments, stand, episodes=2, seed=s).tolist() for s in (1, 2, 1)
        )
    assert first == again
    assert first != other


def test_more_episodes_than_environments_are_refused() -> None:
    with Environments("Pendulum-v1", count=2, workers=1) as environments:
        for episodes in (0, 3):
            with pytest.raises(SettingError, match=rf"between 1 and .*, 2, got {episodes}"):
                play(environments, swing, episodes=episodes, seed=0)


def test_returns_are_those_of_the_exported_network() -> None:
    """UCL's network with noise far from small, in training mode, against its plain export."""
    method = small_method("ucl", begun=1, sigma=0.5).train()
    task = tasks_of(SEQUENCE, SPACES)[0]
    with torch.no_grad():
        method.model.get_parameter("heads.0.weight").mul_(100)
        method.model.get_parameter("heads.0.log_std").fill_(1.0)
    normaliser = Normaliser(3)
    normaliser.observe(np.random.default_rng(0).normal(0.5, 2.0, (50, 3)).astype(np.float32))
    before = str(normaliser.state())
    plain = export(method.model).eval()

    def act(raw: NDArray[np.float32]) -> NDArray[np.float32]:
        shown = np.zeros((len(raw), WIDTH), np.float32)
        shown[:, :3] = normaliser.observations(raw)
        with torch.no_grad():
            mode: NDArray[np.float32] = view(plain(torch.from_numpy(shown), task=0)).mean.numpy()
        return mode

    judge = Evaluator(WIDTH, small_plan(evaluation_episodes=3))
    try:
        found = [judge.returns(method, task, normaliser, seed=4) for _ in range(2)]
    finally:
        judge.close()
    with Environments(task.name, count=3, workers=1) as environments:
        expected = play(environments, act, episodes=3, seed=4).tolist()
    assert found == [expected, expected]
    assert str(normaliser.state()) == before
    assert all(module.training for module in method.model.modules())


def test_a_random_policy_earns_what_a_plain_loop_of_random_actions_does() -> None:
    plan = small_plan(evaluation_episodes=2)
    chance = np.random.default_rng(8)
    played = [gymnasium.make("Pendulum-v1") for _ in range(2)]
    for i, one in enumerate(played):
        one.reset(seed=int(np.random.SeedSequence([8, i]).generate_state(1)[0]))
    total = 0.0
    for _ in range(200):  # the length of every episode of the pendulum
        actions = (-2 + 4 * chance.random((2, 1))).astype(np.float32)
        chance.standard_normal((2, 1))  # for spaces without bounds
        paid = [one.step(action)[1] for one, action in zip(played, actions, strict=True)]
        total += float(np.float32(paid[0])) + float(np.float32(paid[1]))
    assert random_return("Pendulum-v1", plan, 8) == pytest.approx(total / 2)
