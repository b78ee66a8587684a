"""`use_means` and `use_samples` speak louder than train() and eval(), and leave no trace."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer, convert, hold_draws, use_means, use_samples

Context = Callable[[nn.Module], AbstractContextManager[None]]


def network() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    return convert(net, sigma=0.3)


def is_noisy(net: nn.Module, x: Tensor) -> bool:
    return not torch.equal(net(x), net(x))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(
    ("context", "noisy_when"),
    [
        (use_means, {True: False, False: False}),
        (use_samples, {True: True, False: True}),
        (lambda net: nullcontext(), {True: True, False: False}),
    ],
    ids=["means", "samples", "neither"],
)
def test_who_decides(training: bool, context: Context, noisy_when: dict[bool, bool]) -> None:
    net, x = network().train(training), torch.randn(2, 4)
    with context(net):
        assert is_noisy(net, x) == noisy_when[training]
        assert all(module.training == training for module in net.modules())
    assert is_noisy(net, x) == training


def test_means_now_are_the_means_of_evaluation() -> None:
    net, x = network().train(), torch.randn(2, 4)
    with use_means(net):
        found = net(x)
    assert torch.equal(found, net.eval()(x))


def test_the_inner_of_two_counts_and_the_outer_comes_back() -> None:
    net, x = network().eval(), torch.randn(2, 4)
    with use_samples(net):
        with use_means(net):
            assert not is_noisy(net, x)
        assert is_noisy(net, x)
    assert not is_noisy(net, x)


@pytest.mark.parametrize("context", [use_means, use_samples])
def test_an_exception_leaves_no_trace(context: Context) -> None:
    net = network()
    first = net.get_submodule("0")
    assert isinstance(first, GaussianLayer)
    first.draws = True  # set by hand beforehand
    with pytest.raises(KeyError), context(net):
        raise KeyError
    assert [m.draws for m in net.modules() if isinstance(m, GaussianLayer)] == [True, None]


def test_other_layers_keep_their_mode() -> None:
    net = convert(nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5)), sigma=0.1).train()
    x = torch.randn(2, 4)
    with use_means(net):
        assert is_noisy(net, x)  # by dropout
    with use_samples(net.eval()):
        assert (net(x) != 0).all()  # no dropout


def test_a_part_of_a_network_can_be_switched_alone() -> None:
    net, x = network().eval(), torch.randn(2, 4)
    with use_samples(net.get_submodule("0")):
        assert is_noisy(net, x)
        assert not is_noisy(net.get_submodule("2"), torch.randn(2, 6))


def test_held_draws_are_one_draw_of_the_weights() -> None:
    """Within, every call sees the first call's weights; as means move, the drawn weights follow."""
    net, x = network().train(), torch.randn(2, 4)
    twin = copy.deepcopy(net)
    with hold_draws(net):
        first = net(x)
        assert torch.equal(first, net(x))
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(1.5)
        moved = net(x)
    assert torch.equal(first, twin(x))
    with torch.no_grad():
        for p in twin.parameters():
            p.mul_(1.5)
    for layer in (m for m in twin.modules() if isinstance(m, GaussianLayer)):
        layer.noise.drawn = 0
    assert torch.equal(moved, twin(x))


def test_after_a_held_draw_new_ones_follow_as_after_a_single_call() -> None:
    net, x = network().train(), torch.randn(2, 4)
    twin = copy.deepcopy(net)
    with hold_draws(net):
        for _ in range(3):
            net(x)
    twin(x)
    assert torch.equal(net(x), twin(x))
    with hold_draws(net):
        pass
    assert torch.equal(net(x), twin(x))
    with hold_draws(net):
        assert torch.equal(net(x), twin(x))
    assert torch.equal(net(x), twin(x))
