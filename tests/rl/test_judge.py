"""A task is judged with mean weights, the most likely action and the task's own statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.rl.small import SEQUENCE, SPACES, WIDTH, small_method, small_plan
from uclearn.gaussian import export
from uclearn.rl.evaluate import play
from uclearn.rl.judge import Judge
from uclearn.rl.normalise import Normaliser
from uclearn.rl.policy import view
from uclearn.rl.tasks import tasks_of

pytestmark = pytest.mark.rl


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

    judge = Judge(WIDTH, small_plan(evaluation_episodes=3))
    try:
        found = [judge.returns(method, task, normaliser, seed=4) for _ in range(2)]
    finally:
        judge.close()
    expected = play(task.name, act, episodes=3, seed=4, workers=1).tolist()
    assert found == [expected, expected]
    assert str(normaliser.state()) == before
    assert all(module.training for module in method.model.modules())
