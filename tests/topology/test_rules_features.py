"""Normalisation passes on feature by feature, and its scale and shift belong to the features."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree, agree_by_element, agree_on
from tests.topology.oracle import Oracle, SetTensor, inputs


def test_layer_norm_over_several_dimensions() -> None:
    net = nn.Sequential(
        nn.Linear(2, 12), nn.Unflatten(1, (2, 3, 2)), nn.LayerNorm((3, 2)), nn.Linear(2, 1)
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.norm("2", o.linear("0", x, 12).reshape(-1, 2, 3, 2), -2, -1)
        o.linear("3", h, 1)

    agree_on(net, [2], mirror)


def test_layer_norm_behind_a_convolution_in_the_order_of_its_weights() -> None:
    net = Net(
        lambda m, x: m.out(m.norm(m.conv(x)).permute(0, 2, 3, 1)),
        conv=nn.Conv2d(1, 3, 2),
        norm=nn.LayerNorm((3, 2, 2)),
        out=nn.Linear(3, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.norm("norm", o.conv("conv", x, 3, (2, 2)), 1, 2, 3)
        o.linear("out", h.permute(0, 2, 3, 1), 1)

    agree_on(net, [1, 3, 3], mirror)


def test_channels_last_as_in_convnext() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.stem(x)
        y = m.norm(m.depthwise(h).permute(0, 2, 3, 1))
        y = m.down(F.gelu(m.up(y))).permute(0, 3, 1, 2)
        return m.head((h + y).mean([-2, -1]))

    net = Net(
        forward,
        stem=nn.Conv2d(1, 3, 1),
        depthwise=nn.Conv2d(3, 3, 3, padding=1, groups=3),
        norm=nn.LayerNorm(3),
        up=nn.Linear(3, 5),
        down=nn.Linear(5, 3),
        head=nn.Linear(3, 2),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.conv("stem", x, 3, (1, 1))
        y = o.norm("norm", o.conv("depthwise", h, 3, (3, 3), padding=1).permute(0, 2, 3, 1), -1)
        y = o.linear("down", o.linear("up", y, 5), 3).permute(0, 3, 1, 2)
        o.linear("head", (h + y).union(2, 3), 2)

    agree_on(net, [1, 3, 3], mirror)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(4),
        nn.GroupNorm(2, 4),
        nn.InstanceNorm1d(4, affine=True),
        nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
    ],
    ids=lambda norm: type(norm).__name__,
)
def test_norms_over_channels(norm: nn.Module) -> None:
    """Behind a reshape a channel may hold several nodes."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Unflatten(1, (4, 2)), norm, nn.Conv1d(4, 2, 2))

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.conv("3", o.norm("2", o.linear("0", x, 8).reshape(-1, 4, 2), 1), 2, (2,))

    agree_on(net, [3], mirror)


def test_batch_norm_of_features_and_rms_norm() -> None:
    net = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.RMSNorm(4), nn.Linear(4, 2)
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("4", o.norm("3", o.norm("1", o.linear("0", x, 4), 1), -1), 2)

    agree_on(net, [3], mirror)


def test_instance_norm_without_batch() -> None:
    net = Net(
        lambda m, x: m.out(m.norm(m.conv(x)).flatten()),
        conv=nn.Conv2d(1, 3, 1),
        norm=nn.InstanceNorm2d(3, affine=True),
        out=nn.Linear(12, 1),
    )

    def mirror(o: Oracle) -> None:
        h = o.norm("norm", o.conv("conv", inputs(1, 2, 2), 3, (1, 1)), 0)
        o.linear("out", h.reshape(-1), 1)

    agree(net, torch.randn(1, 2, 2), mirror)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.layer_norm(x, (3, 2)),
        lambda x: F.rms_norm(x, (2,)),
        lambda x: F.group_norm(x, 2),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.zeros(4)),
        F.instance_norm,
        nn.BatchNorm2d(4, affine=False),
        lambda x: x.softmax(-1),
        lambda x: F.log_softmax(x, dim=1),
        lambda x: F.softmin(x, dim=0),
        F.dropout,
        lambda x: F.dropout(x.clone(), inplace=True),
        F.dropout1d,
        F.alpha_dropout,
        F.feature_alpha_dropout,
        lambda x: F.prelu(x, torch.ones(4)),
        torch.tril,
    ],
)
def test_functions_that_pass_on_feature_by_feature(function: Callable[..., Tensor]) -> None:
    shape = [2, 4, 3, 2][: 3 if function is F.dropout1d else 4]
    agree_by_element(shape, function, lambda x: x, whole=False)


def test_a_normalisation_written_out_by_hand_is_followed_through_its_parts() -> None:
    """Each feature is divided by what all of them make."""
    everything: list[Callable[[Tensor], Tensor]] = [
        lambda x: F.normalize(x, dim=-1),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    ]
    for function in everything:
        agree_by_element([2, 3], function, lambda x: x + x.union(-1, keep=True))


def test_local_response_norm_looks_at_neighbouring_channels() -> None:
    def mirror(x: SetTensor) -> SetTensor:
        return x + x.permute(0, 2, 1).pool([3], [1], [1]).permute(0, 2, 1)

    agree_by_element([1, 4, 2], lambda x: F.local_response_norm(x, 3), mirror)
