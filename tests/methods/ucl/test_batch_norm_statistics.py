"""Running statistics: gathered anew with the mean weights, kept, held, lent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.gaussian import convert, use_means
from uclearn.gaussian.draws import SteadyBatchNorm
from uclearn.methods.ucl.batch_norm import (
    borrowed_statistics,
    reestimate,
    restore_statistics,
    statistics,
    tracking_norms,
)


def network() -> nn.Module:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4, momentum=0.3),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.BatchNorm1d(5, affine=False),
        nn.BatchNorm1d(5, track_running_stats=False),
    )
    return convert(net, sigma=0.5)


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [3 + torch.randn(size, 2, 4, 4, generator=generator) for size in (8, 8, 5)]


def run(model: nn.Module, inputs: list[Tensor]) -> Iterator[Tensor]:
    for x in inputs:
        yield model(x)


def trained() -> nn.Module:
    """Its statistics were gathered under noise."""
    net = network().train()
    list(run(net, batches()))
    return net


def test_the_statistics_are_those_of_the_mean_network_over_the_data() -> None:
    """Each batch's mean and unbiased variance, averaged over the batches; what is behind a batch
    norm sees the batch as that norm puts it out in training."""
    net = trained()
    first, second = tracking_norms(net)
    sums: list[list[Tensor]] = [[], [], [], []]
    for x in batches():
        weight, bias = net.get_parameter("0.weight"), net.get_parameter("0.bias")
        channels = nn.functional.conv2d(x, weight, bias)
        mean, var = channels.mean((0, 2, 3)), channels.var((0, 2, 3))
        biased = channels.var((0, 2, 3), unbiased=False)
        scaled = (channels - mean[:, None, None]) / (biased + first.eps).sqrt()[:, None, None]
        scaled = scaled * first.weight[:, None, None] + first.bias[:, None, None]
        features = nn.functional.linear(
            scaled.relu().flatten(1), net.get_parameter("5.weight"), net.get_parameter("5.bias")
        )
        for kept, value in zip(sums, (mean, var, features.mean(0), features.var(0)), strict=True):
            kept.append(value.detach())
    expected = [torch.stack(kept).mean(0) for kept in sums]
    noisy = statistics(net)
    with use_means(net):
        reestimate(net, run(net, batches()))
    torch.testing.assert_close(statistics(net), expected)
    assert not torch.allclose(noisy[1], expected[1], rtol=0.01)  # it was needed
    assert first.running_mean is not None
    assert second.running_mean is not None


def test_one_batch_of_everything_gives_the_exact_statistics_of_the_data() -> None:
    net, data = trained(), torch.cat(batches())
    reestimate(net, run(net, [data]))  # evaluation mode alone makes the layers use their means
    channels = nn.functional.conv2d(
        data, net.get_parameter("0.weight"), net.get_parameter("0.bias")
    )
    mean, var, *_ = statistics(net)
    torch.testing.assert_close(mean, channels.mean((0, 2, 3)))
    torch.testing.assert_close(var, channels.var((0, 2, 3)))


def test_doing_it_twice_changes_nothing() -> None:
    net = trained()
    reestimate(net, run(net, batches()))
    before = statistics(net)
    reestimate(net, run(net, batches()))
    assert all(map(torch.equal, statistics(net), before))


def test_momentum_and_modes_are_as_before() -> None:
    net = trained()
    net.get_submodule("3").eval()
    net.get_submodule("6").eval()
    modes = [module.training for module in net.modules()]
    reestimate(net, run(net, batches()))
    assert [norm.momentum for norm in tracking_norms(net)] == [0.3, 0.1]
    assert [module.training for module in net.modules()] == modes


def test_parameters_and_gradients_are_left_alone() -> None:
    net = trained()
    before = [p.detach().clone() for p in net.parameters()]
    reestimate(net, run(net, batches()))
    assert all(map(torch.equal, net.parameters(), before))
    assert all(p.grad is None for p in net.parameters())


def buffers(net: nn.Module) -> list[Tensor]:
    return [buffer.clone() for buffer in net.buffers()]


def test_a_pass_that_fails_leaves_everything_as_it_was() -> None:
    net = trained()
    before, modes = buffers(net), [module.training for module in net.modules()]
    with pytest.raises(RuntimeError, match="expected input"):
        reestimate(net, run(net, [*batches(), torch.zeros(2, 9, 4, 4)]))
    assert all(map(torch.equal, buffers(net), before))
    assert [norm.momentum for norm in tracking_norms(net)] == [0.3, 0.1]
    assert [module.training for module in net.modules()] == modes


def test_no_pass_at_all_is_an_error_and_leaves_everything_as_it_was() -> None:
    net = trained()
    before, used_up = buffers(net), run(net.eval(), batches())
    list(used_up)
    with pytest.raises(TaskError, match="must be averaged anew over batches of the finished task"):
        reestimate(net, used_up)
    assert all(map(torch.equal, buffers(net), before))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_data_that_are_not_finite_leave_everything_as_it_was(value: float) -> None:
    net = trained()
    before, broken = buffers(net), batches()
    broken[1][0, 0, 0, 0] = value
    with pytest.raises(TaskError, match="must be finite and lead to finite activations"):
        reestimate(net, run(net, broken))
    assert all(map(torch.equal, buffers(net), before))


def test_a_steady_norm_uses_its_statistics_and_keeps_them_in_training_too() -> None:
    net, x = trained(), batches()[0]
    for norm in tracking_norms(net):
        norm.steady = True
    before = buffers(net)
    with use_means(net):
        net.train()
        found = net[:3](x)  # type: ignore[index]
        net.eval()
        torch.testing.assert_close(found, net[:3](x))  # type: ignore[index]
    assert all(map(torch.equal, buffers(net), before))
    reestimate(net, run(net, batches()))
    assert all(map(torch.equal, buffers(net), before))


def test_gradients_reach_scale_and_shift_of_a_steady_norm() -> None:
    norm = convert(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), sigma=0.1).get_submodule("1")
    assert isinstance(norm, SteadyBatchNorm)
    norm.steady = True
    x = torch.randn(6, 4)
    norm(x).sum().backward()
    torch.testing.assert_close(norm.bias.grad, torch.full((4,), 6.0))
    expected = (x / (1 + norm.eps) ** 0.5).sum(0)  # statistics are the initial ones, 0 and 1
    torch.testing.assert_close(norm.weight.grad, expected)


def test_while_not_steady_it_is_the_torch_layer_in_both_modes() -> None:
    for plain, shape in (
        (nn.BatchNorm1d(3), (4, 3)),
        (nn.BatchNorm1d(3), (4, 3, 2)),
        (nn.BatchNorm2d(3, momentum=None), (4, 3, 2, 2)),
        (nn.BatchNorm3d(3, affine=False), (4, 3, 2, 2, 2)),
    ):
        twin = convert(nn.Sequential(nn.Linear(1, 1), plain), sigma=0.1)[1]  # type: ignore[index]
        for mode in (True, False):
            x = torch.randn(shape)
            assert torch.equal(twin.train(mode)(x), plain.train(mode)(x))
        assert all(map(torch.equal, buffers(twin), buffers(plain)))


def test_statistics_are_a_copy_and_go_back_where_they_were() -> None:
    net, x = trained().eval(), batches()[0]
    saved, output = statistics(net), net(x)
    assert [tuple(tensor.shape) for tensor in saved] == [(4,), (4,), (5,), (5,)]
    reestimate(net, run(net, batches()))
    assert not torch.equal(net(x), output)
    restore_statistics(net, saved)
    assert torch.equal(net(x), output)


def test_borrowed_statistics_are_given_back_even_after_an_error() -> None:
    net, x = trained().eval(), batches()[0]
    lent, own = [torch.full_like(t, 2.0) for t in statistics(net)], statistics(net)
    output = net(x)
    with borrowed_statistics(net, lent):
        assert all(map(torch.equal, statistics(net), lent))
        assert not torch.equal(net(x), output)
    assert all(map(torch.equal, statistics(net), own))
    with pytest.raises(KeyError), borrowed_statistics(net, lent):
        raise KeyError
    assert torch.equal(net(x), output)
