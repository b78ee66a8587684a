"""Elementwise functions, sums, products of matrices, filters: unions of what they combine."""

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
from tests.topology.oracle import Oracle, SetTensor, cat, inputs, pad

ACTIVATIONS: list[Callable[..., Any]] = [
    F.relu, F.relu6, F.elu, F.selu, F.celu, F.leaky_relu, F.rrelu, F.gelu, F.silu, F.mish,
    F.hardswish, F.hardsigmoid, F.hardtanh, F.softplus, F.softsign, F.tanhshrink, F.hardshrink,
    F.softshrink, F.logsigmoid, torch.sigmoid, torch.tanh, torch.exp, torch.erf, torch.sin,
    torch.abs, torch.square, torch.log1p, torch.sgn, torch.nan_to_num, torch.clone,
    lambda x: F.threshold(x, 0.1, 20),
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: 1 - 2 / (3 + x) ** 2 // 4 % 5,
    lambda x: 2**x,
    lambda x: x.clamp(-1, 1) > 0.5,
    lambda x: ~(x.isnan() | (x == 1)),
    lambda x: x.masked_fill(torch.ones(3, dtype=torch.bool), 0.0),
    lambda x: torch.where(torch.tensor([True, False, True]), x, 0.0),
    lambda x: torch.bernoulli(x.sigmoid()),
    lambda x: x + torch.zeros_like(x) + torch.randn_like(x) + x.new_ones(3),
    lambda x: x * x.new_empty(2, 1).bernoulli_(0.5),
    lambda x: torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=False),
]  # fmt: skip


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_functions_of_one_element(function: Callable[..., Any]) -> None:
    agree_by_element([2, 3], lambda x: function(x).float(), lambda x: x)


PAIRS: list[Callable[..., Any]] = [
    torch.add, torch.mul, torch.sub, torch.div, torch.maximum, torch.minimum, torch.max,
    torch.atan2, torch.pow, torch.fmod, torch.logaddexp, torch.normal,
    lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.where(a > 0, a, b),
    lambda a, b: torch.addcmul(a, b, b),
    lambda a, b: a.masked_fill(b > 0, 0.0),
    lambda a, b: torch.complex(a, b.expand(2, 3)).abs(),
    lambda a, b: torch.polar(a, b.expand(2, 3)).imag,
    lambda a, b: a.sigmoid() * b + (1 - a.sigmoid()) * 3,
    lambda a, b: sum([a, b, a]),
    lambda a, b: a + b * torch.randn(3),
    lambda a, b: torch.distributions.Normal(a, b.exp()).rsample(),
]  # fmt: skip


@pytest.mark.parametrize("function", PAIRS)
def test_functions_of_two_elements_broadcast(function: Callable[..., Any]) -> None:
    def both(x: Tensor) -> Tensor:
        x = x.abs()
        result: Tensor = function(x[:6].view(2, 3), x[6:])
        return result

    agree_by_element([9], both, lambda x: x[:6].reshape(2, 3) + x[6:])


REDUCTIONS: list[Callable[..., Any]] = [
    lambda x: x.sum(1), lambda x: x.mean(1), lambda x: x.amax(1), lambda x: x.std(1),
    lambda x: x.var(1), lambda x: x.prod(1), lambda x: x.logsumexp(1), lambda x: x.norm(dim=1),
    lambda x: torch.linalg.norm(x, dim=1), lambda x: x.norm(1, dim=1), lambda x: x.nansum(1),
    lambda x: x.max(1)[0], lambda x: x.min(1).values, lambda x: x.median(1).values,
    lambda x: x.argmax(1), lambda x: (x > 0).any(1), lambda x: (x > 0).all(1),
    lambda x: x.count_nonzero(1), lambda x: torch.aminmax(x, dim=1).max,
    lambda x: torch.var_mean(x, 1)[0], lambda x: torch.std_mean(x, 1)[1],
    lambda x: torch.einsum("abc->ac", x),
    lambda x: F.pairwise_distance(x.mT, x.mT * 0 + 1),
]  # fmt: skip


@pytest.mark.parametrize("function", REDUCTIONS)
def test_reductions_unite_over_their_dimensions(function: Callable[..., Any]) -> None:
    agree_by_element([2, 3, 2], lambda x: function(x).float(), lambda x: x.union(1))


def test_reductions_of_several_and_of_all_dimensions() -> None:
    agree_by_element([2, 3, 2], lambda x: x.mean((0, -1)), lambda x: x.union(0, 2))
    agree_by_element([2, 3], lambda x: x.sum(1, keepdim=True), lambda x: x.union(1, keep=True))
    whole: list[Callable[[Tensor], Tensor]] = [torch.sum, torch.amax, torch.max, torch.norm]
    for function in (*whole, lambda x: x.logsumexp((0, 1))):
        agree_by_element([2, 3], function, lambda x: x.union())


def test_each_of_the_largest_comes_from_anywhere() -> None:
    def mirror(x: SetTensor) -> SetTensor:
        all_of_them = x.union(1, keep=True)
        return cat(all_of_them, all_of_them)

    agree_by_element([2, 4], lambda x: x.topk(2, dim=1).values, mirror)


def const(*shape: int) -> SetTensor:
    return inputs(*shape)


def rows_and_columns(x: SetTensor) -> SetTensor:
    """(2, 3) @ (3, 2) of the two halves of 12 elements."""
    return x[:6].reshape(2, 3) @ x[6:].reshape(3, 2)


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": lambda a, b: a @ b,
    "mm": torch.mm,
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: torch.tensordot(a, b, dims=1),
    "bmm": lambda a, b: torch.bmm(a[None], b[None])[0],
    "linear": lambda a, b: F.linear(a, b.t()),
    "inner": lambda a, b: torch.inner(a, b.t()),
    "cdist": lambda a, b: torch.cdist(a, b.t()),
    "cosine": lambda a, b: F.cosine_similarity(a[:, None], b.t()[None], dim=-1),
    "chain": lambda a, b: torch.linalg.multi_dot([a, torch.eye(3), b]),
    "addmm": lambda a, b: torch.addmm(torch.ones(2), a, b),
    "baddbmm": lambda a, b: torch.baddbmm(torch.ones(1, 2, 2), a[None], b[None])[0],
    "columns by hand": lambda a, b: torch.stack([a @ b[:, i] for i in range(2)], dim=1),
    "rows by hand": lambda a, b: torch.stack([row @ b for row in a]),
    "dots": lambda a, b: torch.stack([torch.dot(r, c) for r in a for c in b.t()]).view(2, 2),
    "vectors": lambda a, b: torch.stack([torch.mv(a, c) for c in b.t()], dim=1),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_two_activations(name: str) -> None:
    function = PRODUCTS[name]

    def product(x: Tensor) -> Tensor:
        result: Tensor = function(x[:6].view(2, 3), x[6:].view(3, 2))
        return result

    agree_by_element([12], product, rows_and_columns)


def test_products_with_constants_and_with_a_summand() -> None:
    fixed = torch.randn(3, 4)
    agree_by_element([2, 3], lambda x: x @ fixed, lambda x: x @ const(3, 4))
    agree_by_element(
        [2, 3], lambda x: F.linear(x, fixed.t(), torch.ones(4)), lambda x: x @ const(3, 4)
    )
    agree_by_element([2, 5, 3], lambda x: x @ fixed, lambda x: x @ const(3, 4))
    agree_by_element([4, 2], lambda x: fixed @ x, lambda x: const(3, 4) @ x)
    agree_by_element(
        [3], lambda x: torch.addmm(x, torch.ones(2, 2), torch.ones(2, 3)), lambda x: x + const(2, 3)
    )
    agree_by_element([3], lambda x: torch.outer(x, x), lambda x: x.reshape(3, 1) + x)
    agree_by_element(
        [2, 3], lambda x: torch.einsum("bi,bj->bij", x, x), lambda x: x[:, :, None] + x[:, None]
    )
    agree_by_element([2, 3, 3], lambda x: torch.einsum("bii->b", x), lambda x: mirror_trace(x))
    adjacency = torch.eye(4).to_sparse()
    agree_by_element([4, 2], lambda x: adjacency @ x, lambda x: const(4, 4) @ x)
    agree_by_element([4, 2], lambda x: torch.sparse.mm(adjacency, x), lambda x: const(4, 4) @ x)


def mirror_trace(x: SetTensor) -> SetTensor:
    return x[:, 0, 0] + x[:, 1, 1] + x[:, 2, 2]


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # slower, not wrong
def test_constant_filters() -> None:
    """A blur is no layer: each channel is united over the window."""
    agree_by_element(
        [1, 2, 4],
        lambda x: F.conv1d(x, torch.ones(4, 1, 3), stride=2, padding=1, groups=2),
        lambda x: x[:, [0, 0, 1, 1]].pool([3], [2], [1]),
    )
    agree_by_element(
        [2, 3, 3],
        lambda x: F.conv2d(x, torch.ones(1, 2, 2, 2), torch.ones(1), dilation=2),
        lambda x: x.pool([2, 2], [1, 1], dilation=[2, 2]).union(0, keep=True),
    )
    agree_by_element(
        [1, 1, 4],
        lambda x: F.conv1d(x, torch.ones(2, 1, 2), padding="same"),
        lambda x: cat(*[pad(x, (0, 1)).pool([2], [1])] * 2),
    )
    agree_by_element(
        [1, 1, 4],
        lambda x: F.conv1d(x, torch.ones(1, 1, 2), padding="same", dilation=2),
        lambda x: x.pool([2], [1], [1], [2]),
    )


def test_a_filter_that_nodes_have_made() -> None:
    def filtered(x: Tensor) -> Tensor:
        return F.conv1d(x[:4].view(1, 1, 4), x[4:].view(2, 1, 2))

    def mirror(x: SetTensor) -> SetTensor:
        weights = x[4:].reshape(2, 2).union(1)
        return x[:4].reshape(1, 1, 4).pool([2], [1]) + weights.reshape(2, 1)

    agree_by_element([8], filtered, mirror)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
def test_interpolation_unites_over_the_channel(mode: str) -> None:
    spatial = {"linear": 1, "trilinear": 3}.get(mode, 2)
    size = [3] * spatial
    agree_by_element(
        [1, 2, *[2] * spatial],
        lambda x: F.interpolate(x, size=size, mode=mode),
        lambda x: x.union(*range(2, 2 + spatial), keep=True) + inputs(*size),
    )


def test_gated_linear_units() -> None:
    agree_by_element([2, 4], F.glu, lambda x: x[:, :2] + x[:, 2:])
    agree_by_element([4, 3], lambda x: F.glu(x, dim=0), lambda x: x[:2] + x[2:])
    agree_by_element(
        [2, 4], lambda x: F.silu(x[:, ::2]) * x[:, 1::2], lambda x: x[:, ::2] + x[:, 1::2]
    )


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.cross_entropy(x, torch.tensor([0, 2])),
        lambda x: F.nll_loss(x.log_softmax(1), torch.tensor([0, 2])),
        lambda x: F.mse_loss(x, torch.zeros(2, 3)),
        lambda x: F.smooth_l1_loss(x, torch.zeros(2, 3)),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros(2, 3)),
        lambda x: F.kl_div(x.log_softmax(1), torch.ones(2, 3) / 3, reduction="batchmean"),
    ],
)
def test_losses_inside_a_model(loss: Callable[..., Any]) -> None:
    agree_by_element([2, 3], loss, lambda x: x.union())


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_unpooling_may_put_a_value_anywhere_in_its_channel() -> None:
    def there_and_back(x: Tensor) -> Tensor:
        pooled, places = F.max_pool1d(x, 2, return_indices=True)
        return F.max_unpool1d(pooled, places, [2])

    def mirror(x: SetTensor) -> SetTensor:
        return SetTensor(np.repeat(x.union(-1, keep=True).cells, 4, axis=-1))

    agree_by_element([1, 2, 4], there_and_back, mirror)
