"""Networks that nobody thought of: random chains of layers and operations, against the oracle."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.topology.compare import Net, agree
from tests.topology.oracle import Oracle, SetTensor, cat, inputs, pad, stack

T = TypeVar("T")
Step = Callable[[Net, list[Tensor]], Tensor]
LARGEST = 120


class Draft:
    """A network in the making: what torch shall do, and beside it what the oracle has done."""

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.oracle = data, Oracle()
        self.modules: dict[str, nn.Module] = {}
        self.steps: list[Step] = []
        shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4), "shape")
        count = int(np.prod(shape))
        self.modules["make"] = nn.Linear(1, count)
        made = self.oracle.linear("make", inputs(1, 1), count).reshape(*shape)
        self.values = [made]
        self.first = tuple(shape)

    @property
    def x(self) -> SetTensor:
        """What the next step works on."""
        return self.values[-1]

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        return self.data.draw(strategy)

    def axis(self) -> int:
        return self.draw(st.integers(0, len(self.x.shape) - 1))

    def layer(self, module: nn.Module) -> str:
        name = f"layer{len(self.modules)}"
        self.modules[name] = module
        return name

    def then(self, function: Callable[[Tensor], Tensor], seen: SetTensor) -> None:
        self.add(lambda net, values: function(values[-1]), seen)

    def through(self, name: str, seen: SetTensor) -> None:
        self.add(lambda net, values: net.get_submodule(name)(values[-1]), seen)

    def add(self, step: Step, seen: SetTensor) -> None:
        self.steps.append(step)
        self.values.append(seen)

    def build(self) -> Net:
        def forward(net: Net, x: Tensor) -> Tensor:
            values = [net.get_submodule("make")(x).reshape(self.first)]
            for step in self.steps:
                values.append(step(net, values))
            result: Tensor = net.get_submodule("read")(values[-1].reshape(1, -1))
            return result

        flat = self.x.reshape(1, -1)
        self.oracle.linear("read", flat, 1)
        self.modules["read"] = nn.Linear(flat.shape[1], 1)
        return Net(forward, **self.modules)


# -- layers ------------------------------------------------------------------------------------


def linear(d: Draft) -> None:
    nodes = d.draw(st.integers(1, 4))
    name = d.layer(nn.Linear(d.x.shape[-1], nodes))
    d.through(name, d.oracle.linear(name, d.x, nodes))


def linear_again(d: Draft) -> None:
    """A layer that was used before, or a first one."""
    width = d.x.shape[-1]
    fitting = [
        (name, module.out_features)
        for name, module in d.modules.items()
        if isinstance(module, nn.Linear) and module.in_features == width and name != "make"
    ]
    if not fitting:
        return linear(d)
    name, nodes = d.draw(st.sampled_from(fitting))
    return d.through(name, d.oracle.linear(name, d.x, nodes))


def convolution(d: Draft) -> None:
    spatial = len(d.x.shape) - 2
    if spatial < 1:
        return linear(d)
    channels, sizes = d.x.shape[1], d.x.shape[2:]
    groups = d.draw(st.sampled_from([g for g in (1, 2, channels) if channels % g == 0]))
    nodes, padding = groups * d.draw(st.integers(1, 2)), d.draw(st.integers(0, 1))
    kernel = tuple(d.draw(st.integers(1, min(2, size))) for size in sizes)
    kind = (nn.Conv1d, nn.Conv2d)[spatial - 1]
    name = d.layer(kind(channels, nodes, kernel, padding=padding, groups=groups))  # type: ignore[arg-type]
    return d.through(name, d.oracle.conv(name, d.x, nodes, kernel, padding=padding))


def transposed_convolution(d: Draft) -> None:
    if len(d.x.shape) != 4:
        return convolution(d)
    name = d.layer(nn.ConvTranspose2d(d.x.shape[1], 2, 2, stride=1))
    return d.through(name, d.oracle.conv_transpose(name, d.x, 2, 2, 1))


def norm(d: Draft) -> None:
    dims = d.draw(st.integers(0, len(d.x.shape) - 1))
    if dims == 0:
        batch_norm = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[len(d.x.shape) - 2]
        name = d.layer(batch_norm(d.x.shape[1]))
        d.through(name, d.oracle.norm(name, d.x, 1))
    else:
        name = d.layer(nn.LayerNorm(d.x.shape[-dims:]))
        d.through(name, d.oracle.norm(name, d.x, *range(-dims, 0)))


# -- operations --------------------------------------------------------------------------------


def activation(d: Draft) -> None:
    kinds: list[Callable[[Tensor], Tensor]]
    kinds = [F.relu, F.gelu, torch.tanh, F.silu, F.dropout, lambda x: F.softmax(x, dim=-1)]
    d.then(d.draw(st.sampled_from(kinds)), d.x)


def permute(d: Draft) -> None:
    axes = d.draw(st.permutations(range(len(d.x.shape))))
    d.then(lambda x: x.permute(*axes), d.x.permute(*axes))


def reshape(d: Draft) -> None:
    count = int(np.prod(d.x.shape))
    first = d.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    second = d.draw(
        st.sampled_from([n for n in range(1, count // first + 1) if count // first % n == 0])
    )
    d.then(lambda x: x.reshape(first, second, -1), d.x.reshape(first, second, -1))


def part(d: Draft) -> None:
    axis = d.axis()
    size = d.x.shape[axis]
    start = d.draw(st.integers(0, size - 1))
    step = d.draw(st.integers(1, 2))
    index = (slice(None),) * axis + (slice(start, None, step),)
    d.then(lambda x: x[index], d.x[index])


def choose(d: Draft) -> None:
    axis = d.axis()
    places = d.draw(st.lists(st.integers(0, d.x.shape[axis] - 1), min_size=1, max_size=4))
    index = (slice(None),) * axis + (places,)
    d.then(lambda x: x[index], d.x[index])


def turn(d: Draft) -> None:
    axis, by = d.axis(), d.draw(st.integers(0, 3))
    if by == 0:
        d.then(lambda x: x.flip(axis), d.x.move(np.flip, axis=axis))
    else:
        d.then(lambda x: x.roll(by, axis), d.x.move(np.roll, by, axis=axis))


def surround(d: Draft) -> None:
    before, after = d.draw(st.integers(0, 1)), d.draw(st.integers(0, 1))
    d.then(lambda x: F.pad(x, (before, after)), pad(d.x, (before, after)))


def repeat(d: Draft) -> None:
    axis = d.axis()
    d.then(lambda x: x.repeat_interleave(2, dim=axis), d.x.move(np.repeat, 2, axis=axis))


def reduce(d: Draft) -> None:
    axis, keep = d.axis(), len(d.x.shape) <= 2 or d.draw(st.booleans())
    d.then(lambda x: x.mean(axis, keepdim=keep), d.x.union(axis, keep=keep))


def standardise(d: Draft) -> None:
    axis = d.axis()
    d.then(lambda x: x / (1 + x.norm(dim=axis, keepdim=True)), d.x + d.x.union(axis, keep=True))


def pool(d: Draft) -> None:
    spatial = min(len(d.x.shape) - 1, 2)
    kernel = [d.draw(st.integers(1, min(2, size))) for size in d.x.shape[-spatial:]]
    stride = [d.draw(st.integers(1, 2)) for _ in kernel]
    ceil = d.draw(st.booleans())
    function = (F.max_pool1d, F.max_pool2d)[spatial - 1]
    if len(d.x.shape) - spatial > 2:
        return activation(d)
    return d.then(
        lambda x: function(x, kernel, stride, ceil_mode=ceil), d.x.pool(kernel, stride, ceil=ceil)
    )


def attend(d: Draft) -> None:
    if len(d.x.shape) < 3:
        return standardise(d)
    by_hand = d.draw(st.booleans())
    seen = d.x.attend(d.x.shape[-2])
    if by_hand:
        return d.then(lambda x: (x @ x.mT).softmax(-1) @ x, seen)
    return d.then(lambda x: F.scaled_dot_product_attention(x, x, x), seen)


def gate(d: Draft) -> None:
    if d.x.shape[-1] % 2:
        return activation(d)
    half = d.x.shape[-1] // 2
    return d.then(F.glu, d.x[..., :half] + d.x[..., half:])


def join(d: Draft) -> None:
    """With something earlier of the same shape, at the least with itself."""
    shape = d.x.shape
    other = d.draw(st.sampled_from([i for i, v in enumerate(d.values) if v.shape == shape]))
    how, axis = d.draw(st.sampled_from(["add", "mul", "where", "cat", "stack"])), d.axis()
    before = d.values[other]
    if how == "cat":
        return d.add(lambda _, v: torch.cat([v[-1], v[other]], axis), cat(d.x, before, axis=axis))
    if how == "stack" and len(shape) < 4:
        return d.add(
            lambda _, v: torch.stack([v[-1], v[other]], axis), stack(d.x, before, axis=axis)
        )
    if how == "where":
        return d.add(lambda _, v: torch.where(v[-1] > 0, v[-1], v[other]), d.x + before)
    if how == "mul":
        return d.add(lambda _, v: v[-1] * v[other], d.x + before)
    return d.add(lambda _, v: v[-1] + v[other], d.x + before)


def write(d: Draft) -> None:
    """In place, through a view, with something earlier; whoever read it before saw the old."""
    axis = d.axis()
    stop = d.draw(st.integers(1, d.x.shape[axis]))
    adds, view = d.draw(st.booleans()), d.draw(st.booleans())
    index = (slice(None),) * axis + (slice(stop),)
    source = (slice(None),) * axis + (slice(d.x.shape[axis] - stop, None),)

    def step(_: Net, values: list[Tensor]) -> Tensor:
        x = values[-1].clone()
        target = x.view(x.shape)[index].transpose(0, -1) if view else x[index].transpose(0, -1)
        new = values[-1][source].transpose(0, -1)
        target.add_(new) if adds else target.copy_(new)
        return x.relu_()

    old, new = d.x[index], d.x[source]
    d.add(step, d.x.put(index, old + new if adds else new))


STEPS = [
    linear, linear_again, convolution, transposed_convolution, norm, activation, permute, reshape,
    part, choose, turn, surround, repeat, reduce, standardise, pool, attend, gate, join, join,
    write,
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data())
def test_random_networks(data: st.DataObject) -> None:
    draft = Draft(data)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=8), "steps"):
        if np.prod(draft.x.shape) <= LARGEST:
            step(draft)

    def mirror(oracle: Oracle) -> None:
        oracle.arrived = draft.oracle.arrived

    agree(draft.build(), torch.randn(1, 1), mirror)
