"""Pooling gives the union over its window, also where windows straddle different nodes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.topology.compare import Net, agree_by_element, agree_on
from tests.topology.oracle import Oracle, SetTensor, inputs

MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE: dict[tuple[str, int], Callable[..., Any]] = {
    ("max", 1): F.adaptive_max_pool1d,
    ("max", 2): F.adaptive_max_pool2d,
    ("max", 3): F.adaptive_max_pool3d,
    ("average", 1): F.adaptive_avg_pool1d,
    ("average", 2): F.adaptive_avg_pool2d,
    ("average", 3): F.adaptive_avg_pool3d,
}


@settings(max_examples=60)
@given(data=st.data(), spatial=st.integers(1, 3), ceil=st.booleans())
def test_max_pooling(data: st.DataObject, spatial: int, ceil: bool) -> None:
    def each(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))

    sizes, kernel, stride = each(2, 4 if spatial < 3 else 3), each(1, 3), each(1, 3)
    dilation = each(1, 2)
    padding = [data.draw(st.integers(0, k // 2)) for k in kernel]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    assume(all(s + 2 * p >= r for s, p, r in zip(sizes, padding, reach, strict=True)))
    agree_by_element(
        [1, 2, *sizes],
        lambda x: MAX[spatial](x, kernel, stride, padding, dilation, ceil),
        lambda x: x.pool(kernel, stride, padding, dilation, ceil),
    )


@settings(max_examples=60)
@given(data=st.data(), spatial=st.integers(1, 3), ceil=st.booleans(), count=st.booleans())
def test_average_pooling(data: st.DataObject, spatial: int, ceil: bool, count: bool) -> None:
    def each(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))

    sizes, kernel, stride = each(2, 5 if spatial < 3 else 3), each(1, 3), each(1, 3)
    padding = [data.draw(st.integers(0, k // 2)) for k in kernel]
    assume(all(s >= k for s, k in zip(sizes, kernel, strict=True)))
    agree_by_element(
        [1, 2, *sizes],
        lambda x: AVERAGE[spatial](x, kernel, stride, padding, ceil, count),
        lambda x: x.pool(kernel, stride, padding, ceil=ceil),
    )


@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from(["max", "average"]), spatial=st.integers(1, 3))
def test_adaptive_pooling(data: st.DataObject, kind: str, spatial: int) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=spatial, max_size=spatial))
    wanted = data.draw(st.lists(st.integers(1, 6), min_size=spatial, max_size=spatial))
    function = ADAPTIVE[kind, spatial]
    shape = [1, 2, *sizes] if spatial < 3 else [1, 1, *sizes]
    agree_by_element(shape, lambda x: function(x, wanted), lambda x: x.adaptive_pool(*wanted))


@pytest.mark.parametrize(
    ("pool", "kernel"),
    [
        (nn.MaxPool2d(3, 2, 1), 3),
        (nn.AvgPool2d(2), 2),
        (nn.LPPool2d(2, 2), 2),
        (nn.MaxPool2d(2, return_indices=True), 2),
    ],
)
def test_pooling_modules_between_layers(pool: nn.Module, kernel: int) -> None:
    """Behind a linear layer each position of the picture is a node of its own."""

    def forward(m: Net, x: Tensor) -> Any:
        pooled = m.pool(m.a(x).unflatten(1, (2, 4, 4)))
        pooled = pooled[0] if isinstance(pooled, tuple) else pooled
        return m.b(pooled.flatten(1))

    net = Net(forward, a=nn.Linear(3, 32), pool=pool, b=nn.Linear(8, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("a", x, 32).reshape(-1, 2, 4, 4)
        pooled = h.pool([3, 3], [2, 2], [1, 1]) if kernel == 3 else h.pool([2, 2])
        o.linear("b", pooled.flatten(), 1)

    agree_on(net, [3], mirror)


def test_pooling_without_batch_and_back_again() -> None:
    agree_by_element([2, 4], lambda x: F.max_pool1d(x, 2), lambda x: x.pool([2]))
    agree_by_element([2, 4, 4], lambda x: F.avg_pool2d(x, 2), lambda x: x.pool([2, 2]))
    agree_by_element(
        [2, 4, 4], lambda x: F.adaptive_avg_pool2d(x, (None, 1)), lambda x: x.adaptive_pool(4, 1)
    )


def test_unpooling_puts_values_back_where_they_were_found() -> None:
    slope = -1e6 * torch.arange(4.0)  # whatever the example, the first of each pair is larger

    def there_and_back(x: Tensor) -> Tensor:
        pooled, places = F.max_pool1d(x + slope, 2, return_indices=True)
        return F.max_unpool1d(pooled, places, [2])

    def mirror(x: SetTensor) -> SetTensor:
        return inputs(1, 2, 4).put(np.s_[..., ::2], x.pool([2]))

    agree_by_element([1, 2, 4], there_and_back, mirror)
