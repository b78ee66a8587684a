"""What is written in place is seen by every view of the same memory, and by no one before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree_by_element, agree_on
from tests.topology.oracle import Oracle, SetTensor, cat, inputs

Steps = Callable[[Tensor, Tensor], Tensor]
Mirrored = Callable[[SetTensor, SetTensor], SetTensor]


def through_a_detached_view(a: Tensor, b: Tensor) -> Tensor:
    a.detach().add_(b)
    return a


def through_a_transpose_of_a_slice(a: Tensor, b: Tensor) -> Tensor:
    a[:, 1:].t()[0] += b[:, 0]
    return a


def through_another_memory_format(a: Tensor, b: Tensor) -> Tensor:
    picture = a.view(1, 2, 3, 1).to(memory_format=torch.channels_last)
    rows = picture.permute(0, 2, 3, 1).reshape(3, 2)
    rows += b.t()
    return picture


def into_a_slice(a: Tensor, b: Tensor) -> Tensor:
    a[:, :2] = b[:, 1:]
    return a


def into_a_new_buffer(a: Tensor, b: Tensor) -> Tensor:
    buffer = a.new_zeros(2, 7)
    buffer[:, 1:4] = a
    buffer[:, 3:6] += b
    return buffer


def a_number_into_a_slice(a: Tensor, b: Tensor) -> Tensor:
    a[:, 1] = 3.0
    return a + b


def nothing_left(a: Tensor, b: Tensor) -> Tensor:
    view = a[:1]
    a.zero_()
    return torch.cat([view, b])


def copied_and_filled(a: Tensor, b: Tensor) -> Tensor:
    a.copy_(b[:1])
    a[0].fill_(1.0)
    return a


def by_mask(a: Tensor, b: Tensor) -> Tensor:
    a[torch.tensor([[True, False, False], [True, True, False]])] = b[0]
    return a


def by_index(a: Tensor, b: Tensor) -> Tensor:
    a[torch.tensor([0, 1]), torch.tensor([2, 0])] = b[:, 0]
    return a


def by_index_adding(a: Tensor, b: Tensor) -> Tensor:
    places = torch.tensor([0, 0, 2])
    return a.index_put_((torch.tensor(1), places), b[0], accumulate=True)


def index_add(a: Tensor, b: Tensor) -> Tensor:
    return a.index_add_(1, torch.tensor([2, 2, 0]), b)


def scatter(a: Tensor, b: Tensor) -> Tensor:
    return a.scatter_(1, torch.tensor([[2, 0], [1, 2]]), b)


def scatter_a_number(a: Tensor, b: Tensor) -> Tensor:
    return a.scatter(1, torch.tensor([[2], [1]]), 7.0)


def scatter_add(a: Tensor, b: Tensor) -> Tensor:
    return a.scatter_add(1, torch.tensor([[2, 0, 2], [1, 1, 1]]), b)


def scatter_the_largest(a: Tensor, b: Tensor) -> Tensor:
    return torch.zeros(2, 1).scatter_reduce(1, torch.zeros(2, 3, dtype=torch.long), a, "amax")


def masked(a: Tensor, b: Tensor) -> Tensor:
    return a.masked_fill_(b > 0, 0.0)


def clipped(a: Tensor, b: Tensor) -> Tensor:
    F.relu(F.leaky_relu(a.mul_(2).clamp_(-1, 1), inplace=True), inplace=True)
    F.hardswish(a, inplace=True).div_(b)
    return a.sub_(1).neg_()


def a_result_given_a_place(a: Tensor, b: Tensor) -> Tensor:
    place = a[:, :2] * 1
    torch.add(b[:, :2], 1, out=place)
    return place


def mirror_scatter(a: SetTensor, b: SetTensor) -> SetTensor:
    places = np.array([[0, 0], [1, 1]]), np.array([[2, 0], [1, 2]])
    return a.put(places, b[:, :2])


def united(a: SetTensor, *meetings: tuple[tuple[int, int], SetTensor]) -> SetTensor:
    for place, other in meetings:
        a = a.put(place, a[place] + other)
    return a


CASES: dict[Steps, Mirrored] = {
    through_a_detached_view: lambda a, b: a + b,
    through_a_transpose_of_a_slice: lambda a, b: a.put(np.s_[:, 1], a[:, 1] + b[:, 0]),
    through_another_memory_format: lambda a, b: a + b,
    into_a_slice: lambda a, b: cat(b[:, 1:], a[:, 2:]),
    into_a_new_buffer: lambda a, b: cat(
        inputs(2, 1), a[:, :2], a[:, 2:] + b[:, :1], b[:, 1:], inputs(2, 1)
    ),
    a_number_into_a_slice: lambda a, b: cat(a[:, :1], inputs(2, 1), a[:, 2:]) + b,
    nothing_left: lambda a, b: cat(inputs(1, 3), b, axis=0),
    copied_and_filled: lambda a, b: cat(inputs(1, 3), b[:1], axis=0),
    by_mask: lambda a, b: a.put(([0, 1, 1], [0, 0, 1]), b[0]),
    by_index: lambda a, b: a.put(([0, 1], [2, 0]), b[:, 0]),
    by_index_adding: lambda a, b: united(
        a, ((1, 0), b[0, 0]), ((1, 0), b[0, 1]), ((1, 2), b[0, 2])
    ),
    index_add: lambda a, b: cat(a[:, :1] + b[:, 2:], a[:, 1:2], a[:, 2:] + b[:, :1] + b[:, 1:2]),
    scatter: mirror_scatter,
    scatter_a_number: lambda a, b: a.put(([0, 1], [2, 1]), inputs(2)),
    scatter_add: lambda a, b: united(
        a,
        ((0, 2), b[0, 0]),
        ((0, 0), b[0, 1]),
        ((0, 2), b[0, 2]),
        *(((1, 1), b[1, i]) for i in range(3)),
    ),
    scatter_the_largest: lambda a, b: a.union(1, keep=True),
    masked: lambda a, b: a + b,
    clipped: lambda a, b: a + b,
    a_result_given_a_place: lambda a, b: b[:, :2],
}


@pytest.mark.parametrize("steps", CASES, ids=lambda steps: str(steps.__name__))
def test_writing_in_place(steps: Steps) -> None:
    agree_by_element(
        [2, 2, 3],
        lambda x: steps(x[0], x[1] * 1),
        lambda x: CASES[steps](x[0], x[1]),
    )


def test_what_a_layer_read_is_not_changed_by_what_is_written_later() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        h += m.b(h)
        h += m.c(F.relu(h))
        return m.d(h)

    net = Net(forward, **{name: nn.Linear(3, 3) for name in "abcd"})

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("a", x, 3)
        h = h + o.linear("b", h, 3)
        h = h + o.linear("c", h, 3)
        o.linear("d", h, 3)

    agree_on(net, [3], mirror)


def test_a_buffer_of_the_model_that_is_written_to() -> None:
    class Remembers(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 1)
            self.register_buffer("seen", torch.zeros(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            self.seen[1] = self.a(x).mean(0)
            result: Tensor = self.b(self.seen)
            return result

    net = Remembers()

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("b", o.linear("a", x, 3), 1)

    agree_on(net, [2], mirror)
    assert torch.equal(net.seen, torch.zeros(2, 3))
