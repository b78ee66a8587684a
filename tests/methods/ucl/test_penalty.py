"""Small parameters worked on together: the same penalty as one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.methods.ucl import penalty
from uclearn.sizes import SMALL_ANCHOR

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear and norm": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2)),
        (2, 3),
    ),
    "groups": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2, bias=False)
        ),
        (2, 2, 5, 5),
    ),
    "one layer": (lambda: nn.Sequential(nn.Linear(3, 2, bias=False)), (2, 3)),
}
networks = pytest.mark.parametrize("network", NETWORKS)
terms = pytest.mark.parametrize(
    "settings", [{}, {"freeze": False, "noisy_bias": True}, {"inflate": False}], ids=str
)


def moved_on(network: str, **settings: Any) -> UCL:
    """In its second task, away from what the first one left."""
    make, shape = NETWORKS[network]
    method = paper_ucl(make(), torch.zeros(shape), beta=0.1, seed=2, **settings).double()
    draw = torch.Generator().manual_seed(1)
    shake(method, draw)
    method.end_task()
    shake(method, draw)
    return method


@torch.no_grad()
def shake(method: UCL, draw: torch.Generator) -> None:
    for parameter in method.model.parameters():
        step = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
        parameter.add_(step, alpha=0.3)


def penalty_and_gradients(method: UCL) -> tuple[Tensor, dict[str, Tensor | None]]:
    method.zero_grad()
    value = method.penalty(batch_size=4)
    value.backward()
    return value.detach(), {name: p.grad for name, p in method.model.named_parameters()}


def one_by_one(method: UCL) -> UCL:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(penalty, "SMALL_ANCHOR", 0)
        apart = copy.deepcopy(method)
        apart._tighten()
    return apart


@networks
@terms
def test_together_is_one_by_one(network: str, settings: dict[str, bool]) -> None:
    method = moved_on(network, **settings)
    value, gradients = penalty_and_gradients(method)
    expected, apart = penalty_and_gradients(one_by_one(method))
    assert value > 0
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients, apart, rtol=1e-12, atol=1e-14)


@networks
@terms
def test_the_gradients_added_in_place_are_those_of_the_value(
    network: str, settings: dict[str, bool]
) -> None:
    method = moved_on(network, **settings)
    _, gradients = penalty_and_gradients(method)
    for apart in (method, one_by_one(method)):
        apart.closed_form = True
        for parameter in apart.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        apart.adjust_gradients(batch_size=4)
        added = {
            name: p.grad - 1 for name, p in apart.model.named_parameters() if p.grad is not None
        }
        torch.testing.assert_close(added, gradients, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("frozen", ["0.weight", "3.rho", "1.bias"])
def test_what_is_frozen_for_a_while_is_left_out_and_taken_up_again(frozen: str) -> None:
    method = moved_on("linear and norm")
    whole, gradients = penalty_and_gradients(method)
    method.model.get_parameter(frozen).requires_grad_(False)
    part, fewer = penalty_and_gradients(method)
    assert part < whole
    assert fewer.pop(frozen) is None
    torch.testing.assert_close(fewer, {n: g for n, g in gradients.items() if n != frozen})
    method.model.get_parameter(frozen).requires_grad_(True)
    torch.testing.assert_close(penalty_and_gradients(method), (whole, gradients))


@networks
def test_nothing_that_is_held_is_written_to(network: str) -> None:
    method = moved_on(network)
    before = copy.deepcopy(method.state_dict())
    penalty_and_gradients(method)
    method.closed_form = True
    method.adjust_gradients(batch_size=4)
    assert all(torch.equal(before[name], now) for name, now in method.state_dict().items())


def test_precisions_may_be_mixed() -> None:
    method = moved_on("linear and norm")
    exact, _ = penalty_and_gradients(method)
    method.model[3].float()  # type: ignore[index]
    method.held[1].float()
    method._tighten()
    value, gradients = penalty_and_gradients(method)
    torch.testing.assert_close(value.double(), exact, rtol=1e-6, atol=0)
    for name, parameter in method.model.named_parameters():
        gradient = gradients[name]
        assert gradient is not None
        assert gradient.dtype == parameter.dtype


def test_what_is_kept_for_small_layers_is_bounded_by_their_size() -> None:
    """And nothing of the size of a large one is kept."""
    net = nn.Sequential(nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 5))
    method = paper_ucl(net, torch.zeros(1, 300))
    method.end_task()
    kept = [t for _, grip in method._penalty._bundles for t in grip if t is not None]
    assert SMALL_ANCHOR < 300 * 100
    assert sum(tensor.numel() for tensor in kept) == 2 * (100 * 5 + 100 + 5)
