"""The numbering of nodes, the tables and the strengths read from them."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from uclearn.topology import Topology, node_count, node_dim, trace
from uclearn.topology.memory import Memory
from uclearn.topology.sets import NodeSets

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
    memory, pairs = Memory(sets), torch.zeros(3, 2)
    memory.write(pairs[1], torch.tensor([a, b]))
    numbers = torch.view_as_complex(pairs)
    assert [sets.members(n) for n in memory.read(numbers.conj()).tolist()] == [set(), {1, 2}, set()]
    memory.write(numbers[2], torch.tensor(a))
    assert memory.read(pairs).tolist() == [[0, 0], [a, b], [a, a]]


def test_reading_makes_no_tables() -> None:
    """An example may be a window on a data set of gigabytes."""
    memory, large = Memory(NodeSets()), torch.zeros(()).expand(1 << 40)
    assert memory.read(large[:3]).tolist() == [0, 0, 0]
    assert not memory.knows(large)
