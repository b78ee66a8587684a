"""What our trainer is measured against computes what ours computes."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from benchmarks.plain_ucl import GaussianLinear, Network, loss_of
from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.networks import mlp

SIGMA, BETA = 0.06, 0.03


def twins() -> tuple[UCL, Network]:
    """Our UCL and the plain one after a first task, moved alike since; the plain one reads the
    noise of ours."""
    widths = (7, 5, 6, 3)
    network = mlp(7, (5, 6), 3)
    method = paper_ucl(network, torch.zeros(1, 7), beta=BETA, sigma=SIGMA, sampling="weight")
    plain = Network(widths, SIGMA, draw=lambda shape: method.noise.normals(tuple(shape)))
    return method, plain


def copy_over(method: UCL, plain: Network) -> None:
    ours = list(method._layers.values())
    for layer, twin in zip(ours, plain.layers, strict=True):
        assert isinstance(twin, GaussianLinear)
        twin.mu.data.copy_(layer.weight.data)
        twin.bias.data.copy_(layer.bias.data)
        twin.rho.data.copy_(layer.rho.data[:, None])


def test_loss_and_gradients_of_the_plain_way_are_ours_on_the_same_draws() -> None:
    method, plain = twins()
    assert method.noise is not None
    with torch.no_grad():  # what a first task may have left
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    method.end_task()
    copy_over(method, plain)
    saved = copy.deepcopy(plain)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    copy_over(method, plain)
    x, y = torch.randn(8, 7), torch.arange(8) % 3

    begun = method.noise.state
    ours = F.cross_entropy(method.model(x), y) + method.penalty(batch_size=len(x))
    ours.backward()
    method.noise.state = begun
    theirs = loss_of(plain, saved, x, y, BETA)
    theirs.backward()

    assert theirs.item() == pytest.approx(ours.item(), rel=1e-5)
    for layer, twin in zip(method._layers.values(), plain.layers, strict=True):
        assert isinstance(twin, GaussianLinear)
        torch.testing.assert_close(twin.mu.grad, layer.weight.grad)
        torch.testing.assert_close(twin.bias.grad, layer.bias.grad)
        assert twin.rho.grad is not None
        torch.testing.assert_close(twin.rho.grad.squeeze(1), layer.rho.grad)
