"""One trunk, a head for each task: who goes through which, and what is drawn for them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uclearn.errors import TaskError
from uclearn.networks import MultiHead, head_names, run, run_trunk


def two_heads(seed: int = 0) -> MultiHead:
    torch.manual_seed(1)
    net = MultiHead(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), features=5, seed=seed)
    net.add_head(3)
    net.add_head(2)
    return net


def test_examples_of_different_tasks_go_through_their_own_heads() -> None:
    net, x = two_heads(), torch.randn(6, 4)
    mixed = net(x, task=torch.tensor([0, 1, 1, 0, 1, 0]))
    # products of other sizes may be rounded differently
    torch.testing.assert_close(mixed[[0, 3, 5]], net(x[[0, 3, 5]], task=0))
    torch.testing.assert_close(mixed[[1, 2, 4], :2], net(x[[1, 2, 4]], task=1))
    assert mixed[[1, 2, 4], 2].eq(-torch.inf).all()  # a class that the task does not have


def test_a_head_follows_from_the_seed_and_its_number_alone() -> None:
    """Whatever was drawn, added or learned before."""
    early, late = two_heads(), MultiHead(nn.Linear(4, 5), features=5)
    for outputs in (7, 2):
        torch.rand(10)
        late.add_head(outputs)
    assert torch.equal(
        early.heads[1].get_parameter("weight"), late.heads[1].get_parameter("weight")
    )
    other = two_heads(seed=1)
    assert not torch.equal(
        early.heads[1].get_parameter("weight"), other.heads[1].get_parameter("weight")
    )


def test_a_task_without_a_head_is_refused() -> None:
    with pytest.raises(TaskError, match=r"one of the 2 tasks that have a head, got 2"):
        two_heads()(torch.zeros(1, 4), task=2)


def test_heads_of_tasks_met_elsewhere_are_added_by_loading() -> None:
    full = two_heads()
    with torch.no_grad():
        full.heads[1].get_parameter("bias").fill_(9.0)
    empty = MultiHead(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), features=5)
    empty.load_state_dict(full.state_dict())
    x = torch.randn(3, 4)
    assert torch.equal(empty(x, task=1), full(x, task=1))


def test_networks_with_and_without_heads_are_run_alike() -> None:
    net, x = two_heads(), torch.randn(3, 4)
    assert torch.equal(run(net, x, 1), net(x, task=1))
    assert torch.equal(run(net.trunk, x, 1), net.trunk(x))
    assert torch.equal(run_trunk(net, x), run_trunk(net.trunk, x))


def test_heads_are_found_by_name_wherever_they_are() -> None:
    assert head_names(two_heads()) == ("heads",)
    assert head_names(nn.Sequential(nn.ReLU(), two_heads())) == ("1.heads",)
    assert head_names(nn.Linear(1, 1)) == ()
