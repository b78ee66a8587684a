"""The policy is an ordinary network with heads, and a Gaussian over actions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from uclearn.errors import SettingError, TaskError
from uclearn.gaussian import GaussianLayer
from uclearn.methods.registry import build
from uclearn.networks import has_heads, head_names, run_trunk
from uclearn.rl.policy import ActorCritic, entropy, log_probability, view

WIDTH = 7


def policy(**settings: Any) -> ActorCritic:
    made = ActorCritic(WIDTH, (6, 5), **settings)
    made.add_head(3)
    made.add_head(1)
    return made


def some(batch: int = 4) -> Tensor:
    return torch.randn(batch, WIDTH, generator=torch.Generator().manual_seed(1))


def test_the_gaussian_is_that_of_torch() -> None:
    mean, log_std, actions = torch.randn(3, 5, 4, dtype=torch.float64)
    theirs = Independent(Normal(mean, log_std.exp()), 1)
    ours = log_probability(mean, log_std, actions)
    torch.testing.assert_close(ours, theirs.log_prob(actions))
    torch.testing.assert_close(entropy(log_std), theirs.entropy())


@pytest.mark.parametrize("spread", ["free", "linear"])
@pytest.mark.parametrize("trunk", ["separate", "shared"])
def test_outputs_are_those_of_the_layers(spread: str, trunk: str) -> None:
    net, x = policy(spread=spread, trunk=trunk, log_std=-0.5), some()
    for task, actions in ((0, 3), (1, 1)):
        head = net.head(task)
        acting = net.trunk.actor(x)
        judging = acting if net.trunk.critic is None else net.trunk.critic(x)
        assert (net.trunk.critic is None) == (trunk == "shared")
        mean, log_std, value = view(net(x, task=task))
        assert mean.shape == log_std.shape == (4, actions)
        torch.testing.assert_close(mean, acting @ head.weight.T + head.bias)
        torch.testing.assert_close(value, head.value(judging)[:, 0])
        torch.testing.assert_close(log_std, torch.full((4, actions), -0.5), rtol=0, atol=0.1)
        if spread == "free":
            assert bool((log_std == -0.5).all())


def test_a_task_sees_its_own_head_only() -> None:
    net, x = policy(), some()
    net(x, task=1).sum().backward()
    assert all(p.grad is None for p in net.head(0).parameters())
    assert all(p.grad is not None for p in net.head(1).parameters())


def test_values_are_shared_where_wanted() -> None:
    apart, shared = policy(), policy(values="shared")
    assert apart.head(0).value is not apart.head(1).value
    assert shared.head(0).value is shared.head(1).value
    assert "heads.1.value.weight" in shared.state_dict()


def test_padding_makes_no_difference_to_what_is_seen() -> None:
    net = policy()
    narrow = torch.randn(4, 3)
    wide = net.padded(narrow)
    assert torch.equal(wide[:, :3], narrow)
    assert bool((wide[:, 3:] == 0).all())
    assert net.padded(wide) is not None
    with pytest.raises(
        TaskError, match=r"at most 7 numbers .* got 9\. Build it for the widest task"
    ):
        net.padded(torch.zeros(1, 9))
    with pytest.raises(TaskError, match=r"padded to the widest task, 7 numbers each, got 3"):
        net(narrow)


def test_it_is_a_network_with_heads() -> None:
    net = policy()
    assert has_heads(net)
    assert head_names(net) == ("heads",)
    acting, judging = run_trunk(net, some())
    assert acting.shape == judging.shape == (4, 5)


@pytest.mark.parametrize("values", ["per-task", "shared"])
@pytest.mark.parametrize("spread", ["free", "linear"])
def test_a_saved_policy_brings_its_heads(spread: str, values: str) -> None:
    settings: dict[str, Any] = {"spread": spread, "values": values}
    saved = policy(**settings, seed=3)
    empty = ActorCritic(WIDTH, (6, 5), **settings)
    empty.load_state_dict(saved.state_dict())
    for task in (0, 1):
        assert torch.equal(empty(some(), task=task), saved(some(), task=task))


def test_seeds() -> None:
    one, same, other = policy(seed=1), policy(seed=1), policy(seed=2)
    assert torch.equal(one(some()), same(some()))
    assert not torch.equal(one(some()), other(some()))
    late = ActorCritic(WIDTH, (6, 5), seed=1)
    late.add_head(2)
    late.add_head(1)
    assert torch.equal(late.head(1).weight, one.head(1).weight)


@pytest.mark.parametrize("start", ["he", "orthogonal"])
def test_where_weights_start(start: str) -> None:
    net = ActorCritic(64, (32, 32), start=start)  # type: ignore[arg-type]
    layer = net.trunk.actor[0]
    assert isinstance(layer, torch.nn.Linear)
    first = layer.weight.detach()
    assert bool((layer.bias == 0).all())
    if start == "orthogonal":  # rows of length sqrt(2), at right angles
        torch.testing.assert_close(first @ first.T, 2 * torch.eye(32), rtol=0, atol=1e-5)
    else:  # uniform, variance 2 / fan-in
        assert float(first.abs().max()) <= (6 / 64) ** 0.5
        assert float(first.var()) == pytest.approx(2 / 64, rel=0.1)
    net.add_head(4)
    torch.testing.assert_close(
        net.head(0).weight @ net.head(0).weight.T, 1e-4 * torch.eye(4), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("trunk", ["separate", "shared"])
def test_ucl_holds_the_trunks_and_leaves_the_heads(trunk: str) -> None:
    """The topology follows both trunks: a second layer's weights are held by the first's nodes."""
    method = build("ucl", ActorCritic(WIDTH, (6, 5), trunk=trunk), torch.zeros(1, WIDTH))  # type: ignore[arg-type]
    noisy = [name for name, m in method.model.named_modules() if isinstance(m, GaussianLayer)]
    trunks = ["trunk.actor", "trunk.critic"] if trunk == "separate" else ["trunk.actor"]
    assert noisy == [f"{name}.{layer}" for name in trunks for layer in (0, 2)]
    strengths = torch.arange(1.0, 1 + sum(5 + 6 for _ in trunks))
    start = 0
    for name in trunks:
        arriving = method.topology.arriving(f"{name}.2", strengths)  # type: ignore[operator, union-attr]
        assert arriving.tolist() == strengths[start : start + 6].tolist()
        start += 11


def test_refused_settings() -> None:
    with pytest.raises(SettingError, match="`spread` must be one of free, linear, got 'wide'"):
        ActorCritic(3, spread="wide")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"`hidden` must hold the width of at least one"):
        ActorCritic(3, ())
