"""Which nodes stand or fall together, and with which features."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.topology.compare import Net, trace_all
from uclearn.topology import Topology, ties

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
