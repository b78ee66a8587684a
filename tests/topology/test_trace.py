"""The numbering of nodes, the tables and the strengths read from them."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.topology.compare import Net, sources, trace_all
from uclearn.topology import Topology, node_count, node_dim, ties, trace
from uclearn.topology.sets import NodeSets, SetsInMemory

SETS = st.lists(st.sets(st.integers(0, 6), max_size=4), min_size=1, max_size=8)


@given(rows=SETS, seed=st.integers(0, 99))
def test_the_strength_that_arrives_is_the_largest_of_the_set(
    rows: list[set[int]], seed: int
) -> None:
    total = 7
    most = max(1, *map(len, rows))
    table = torch.tensor([[*row, *[total] * (most - len(row))] for row in rows])
    topology = Topology(offsets={"a": 0}, total=total, sources={"b": table})
    strengths = torch.rand(total, generator=torch.Generator().manual_seed(seed))
    expected = [max((float(strengths[node]) for node in row), default=0.0) for row in rows]
    assert topology.arriving("b", strengths).tolist() == expected


def skip_the_middle(net: Any, x: torch.Tensor) -> Any:
    return net[2](net[0](x))


def test_nodes_are_numbered_through_in_the_order_of_the_layers() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Conv1d(1, 4, 1), nn.Linear(3, 5))
    layers = {"2": net[2], "0": net[0]}
    topology = trace(net, torch.randn(1, 2), layers, call=skip_the_middle)
    assert dict(topology.offsets) == {"2": 0, "0": 5}
    assert topology.total == 8
    assert topology.nodes("2") == slice(0, 5)
    assert topology.nodes("0") == slice(5, 8)
    assert topology.sources["2"].tolist() == [[5], [6], [7]]
    assert topology.sources["0"].tolist() == [[8], [8]]  # inputs: only the node that is none


def test_a_table_is_as_wide_as_its_largest_set() -> None:
    net = nn.Sequential(nn.Linear(1, 6), nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 1, 1))
    topology = trace(net, torch.randn(1, 1), {"0": net[0], "2": net[2]})
    assert topology.sources["2"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("layer", "count", "dim"),
    [
        (nn.Linear(2, 3), 3, -1),
        (nn.Conv1d(1, 4, 1), 4, -2),
        (nn.Conv2d(1, 4, 1), 4, -3),
        (nn.Conv3d(1, 4, 1), 4, -4),
        (nn.ConvTranspose2d(1, 5, 1), 5, -3),
        (nn.Embedding(7, 2), 2, -1),
    ],
)
def test_where_the_nodes_of_a_layer_are(layer: nn.Module, count: int, dim: int) -> None:
    assert (node_count(layer), node_dim(layer)) == (count, dim)


@given(left=SETS, data=st.data())
def test_unions_of_numbered_sets(left: list[set[int]], data: st.DataObject) -> None:
    right = data.draw(st.lists(st.sets(st.integers(0, 6)), min_size=len(left), max_size=len(left)))
    sets = NodeSets()
    numbers = [torch.tensor([sets.number(cell) for cell in side]) for side in (left, right)]
    united = sets.union(*numbers)
    assert [sets.members(n) for n in united.tolist()] == [
        a | b for a, b in zip(left, right, strict=True)
    ]
    everything = sets.merge(torch.stack(numbers), (0, 1))
    assert sets.members(int(everything)) == set().union(*left, *right)
    kept = sets.merge(torch.stack(numbers), (0,), keepdim=True)
    assert kept.tolist() == [united.tolist()]


def test_memory_seen_through_complex_numbers() -> None:
    sets = NodeSets()
    a, b = sets.number({1}), sets.number({2})
    memory, pairs = SetsInMemory(sets), torch.zeros(3, 2)
    memory.write(pairs[1], torch.tensor([a, b]))
    numbers = torch.view_as_complex(pairs)
    assert [sets.members(n) for n in memory.read(numbers.conj()).tolist()] == [set(), {1, 2}, set()]
    memory.write(numbers[2], torch.tensor(a))
    assert memory.read(pairs).tolist() == [[0, 0], [a, b], [a, a]]


def test_reading_makes_no_tables() -> None:
    """An example may be a window on a data set of gigabytes."""
    memory, large = SetsInMemory(NodeSets()), torch.zeros(()).expand(1 << 40)
    assert memory.read(large[:3]).tolist() == [0, 0, 0]
    assert not memory.knows(large)


ROWS = st.lists(st.sets(st.integers(0, 9), max_size=3), min_size=1, max_size=8)


def connected(rows: list[set[int]], total: int) -> list[set[int]]:
    """By brute force: join sets that meet until none do."""
    groups = [{node} for node in range(total)]
    for row in rows:
        meeting = [group for group in groups if group & row]
        groups = [group for group in groups if not group & row]
        groups += [set().union(*meeting)] if meeting else []
    return groups


@given(first=ROWS, second=ROWS)
def test_groups_are_the_connected_parts(first: list[set[int]], second: list[set[int]]) -> None:
    total = 10
    tables = {
        name: torch.tensor([[*sorted(row), *[total] * (3 - len(row))] for row in rows])
        for name, rows in (("a", first), ("b", second))
    }
    found = ties(Topology({"a": 0}, total, tables))
    groups = connected([*first, *second], total)
    assert found.count == len(groups)
    for group in groups:
        assert len({int(found.of_nodes[node]) for node in group}) == 1
    for name, rows in (("a", first), ("b", second)):
        for row, group_number in zip(rows, found.of_features[name].tolist(), strict=True):
            assert group_number == (int(found.of_nodes[min(row)]) if row else -1)


def test_a_sum_ties_two_branches_channel_by_channel_through_pooling_and_flatten() -> None:
    net = Net(
        lambda m, x: m.read(nn.functional.max_pool1d(m.norm(m.a(x) + m.b(x)), 2).flatten(1)),
        a=nn.Conv1d(1, 2, 1),
        b=nn.Conv1d(1, 2, 3, padding=1),
        norm=nn.BatchNorm1d(2),
        read=nn.Linear(4, 1),
    )
    found = ties(trace_all(net, torch.randn(2, 1, 4)))
    assert found.of_nodes.tolist() == [0, 1, 0, 1, 2]
    assert found.of_features["norm"].tolist() == [0, 1]
    assert found.of_features["read"].tolist() == [0, 0, 1, 1]
    assert found.of_features["a"].tolist() == [-1]


class Whole(nn.Module):
    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return given + x


def test_nodes_that_enter_an_opaque_module_are_known() -> None:
    """By whichever argument, and only those."""
    net = Net(
        lambda m, x: m.read(m.whole(torch.zeros(1), given=m.a(x)) + m.b(x)),
        a=nn.Linear(2, 3),
        b=nn.Linear(2, 3),
        whole=Whole(),
        read=nn.Linear(3, 1),
    )
    topology = trace_all(net, torch.randn(1, 2), opaque=["whole"])
    assert topology.swallowed == {0, 1, 2}
    assert trace_all(nn.Sequential(nn.Linear(2, 3)), torch.randn(1, 2)).swallowed == set()


def build(last: Any = None) -> Net:
    def forward(m: Net, x: Tensor) -> Any:
        x.mul_(2)  # a model may even write to its inputs
        h = m.norm(m.conv(x))
        m.count += 1
        m.cached = h
        h = m.drop(h).flatten(1)
        return m.out(h if last is None else last(h))

    net = Net(
        forward,
        conv=nn.Conv1d(1, 2, 2),
        norm=nn.BatchNorm1d(2),
        drop=nn.Dropout(),
        out=nn.Linear(4, 1),
    )
    net.register_buffer("count", torch.zeros(()))
    net.conv.requires_grad_(False)
    net.train()
    net.drop.eval()
    return net


def look(net: nn.Module) -> Any:
    return {
        name: (
            module.training,
            sorted(key for key in vars(module) if key != "function"),
            list(module._forward_hooks.values()),
            list(module._forward_pre_hooks.values()),
            [p.requires_grad for p in module.parameters(recurse=False)],
            [p.grad is None for p in module.parameters(recurse=False)],
        )
        for name, module in net.named_modules()
    }


def fail(h: Tensor) -> Tensor:
    raise KeyError("the model broke")


@pytest.mark.parametrize(
    ("last", "error"),
    [(None, None), (fail, KeyError), (lambda h: h.cumsum(1), TypeError)],
    ids=["success", "an error in the model", "a refusal"],
)
def test_model_and_example_stay_as_they_were(last: Any, error: Any) -> None:
    net = build(last)
    seen: list[object] = []
    net.norm.register_forward_hook(lambda *_: seen.append(1))
    before, state = look(net), copy.deepcopy(net.state_dict())
    example = torch.randn(2, 1, 3)
    kept, version = example.clone(), example._version
    if error is None:
        trace_all(net, example)
        assert seen  # the model's own hooks run as ever
    else:
        with pytest.raises(error):
            trace_all(net, example)

    assert look(net) == before
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert torch.equal(example, kept)
    assert example._version == version
    assert torch.overrides._get_current_function_mode_stack() == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []
    assert torch.is_grad_enabled()
    assert torch.ones(1, requires_grad=True).mul(2).requires_grad


def test_the_network_trains_on_as_before() -> None:
    """The same steps from the same start, with and without a trace in between."""
    first, second = build(), build()
    second.load_state_dict(first.state_dict())
    trace_all(second, torch.randn(2, 1, 3))
    x = torch.randn(5, 1, 3)
    for net in (first, second):
        net(x.clone()).sum().backward()
    assert torch.equal(first.out.weight.grad, second.out.weight.grad)
    assert torch.equal(first.norm.running_mean, second.norm.running_mean)


def test_nothing_is_kept_alive() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def remember(h: Tensor) -> Tensor:
        seen.append(weakref.ref(h))
        return h

    topology = trace_all(build(remember), torch.randn(2, 1, 3))
    gc.collect()
    assert [reference() for reference in seen] == [None]
    assert topology.total == 3


def test_own_hooks_that_change_inputs_and_outputs_are_part_of_the_model() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    net[1].register_forward_pre_hook(lambda module, inputs: (inputs[0].flip(1),))
    net[1].register_forward_hook(lambda module, inputs, output: output * 2)
    found = sources(trace_all(net, torch.randn(1, 2)))
    assert found["1"] == [{2}, {1}, {0}]
    assert found["2"] == [{3}, {4}, {5}]


def test_a_layer_that_hands_out_memory_which_others_see() -> None:
    """One of its own features many times, or even its input: the nodes are its own."""

    class Wide(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)[:, :1].expand(-1, self.out_features)

    class Same(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return input

    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        return m.d(torch.cat([m.b(h), m.c(h), h], dim=1))

    net = Net(forward, a=nn.Linear(2, 2), b=Wide(2, 2), c=Same(2, 2), d=nn.Linear(6, 1))
    assert sources(trace_all(net, torch.randn(1, 2)))["d"] == [{2}, {3}, {4}, {5}, {0}, {1}]


def test_an_opaque_module_that_hands_its_input_through() -> None:
    """What comes out counts as an input; whoever else reads the same tensor sees the nodes."""

    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        y, z = m.b(m.plain(h)), m.c(h)
        return y + z

    net = Net(forward, a=nn.Linear(2, 3), plain=nn.Identity(), b=nn.Linear(3, 1), c=nn.Linear(3, 1))
    found = sources(trace_all(net, torch.randn(1, 2), opaque=["plain"]))
    assert found == {"a": [set()] * 2, "b": [set()] * 3, "c": [{0}, {1}, {2}]}


def test_an_opaque_module_that_returns_a_container() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"all": self.inside(x), "half": x[:, :1].expand(-1, 2)}

    def forward(m: Net, x: Tensor) -> Any:
        parts = m.plain(m.a(x))
        return m.b(torch.cat([parts["all"], parts["half"]], dim=1))

    net = Net(forward, a=nn.Linear(2, 3), plain=Two(), b=nn.Linear(5, 1))
    assert sources(trace_all(net, torch.randn(1, 2), opaque=["plain"]))["b"] == [set()] * 5
