"""How sure a prediction is."""

from __future__ import annotations

import torch

from uclearn import UCL
from uclearn.networks import mlp
from uclearn.training import predict


def test_draws_add_disagreement_and_leave_no_trace() -> None:
    method = UCL(mlp(2, (16,), 3), torch.zeros(1, 2), sigma=0.5)
    x = torch.randn(20, 2)
    sure, unsure = predict(method, x, task=0), predict(method, x, task=0, draws=32)
    assert torch.all(sure.disagreement == 0)
    assert unsure.disagreement.mean() > 0.01
    assert torch.allclose(unsure.probabilities.sum(1), torch.ones(20))
    assert torch.equal(predict(method, x, task=0).probabilities, sure.probabilities)
    entropy = -(unsure.probabilities * unsure.probabilities.log()).sum(1)
    assert torch.allclose(unsure.entropy, entropy)
