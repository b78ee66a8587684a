"""From nodes to what reads them: which nodes stand or fall together, and with which features.

A sum of two branches makes one feature out of two nodes. Take one of the nodes away and the shapes
no longer fit: both go, with every feature that either of them feeds, or both stay. Nodes that are
tied like that, directly or through others, form a group, and every input feature of every layer
belongs to exactly one group, or to none if no node feeds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from uclearn.topology.trace import Topology

NOBODY = -1
"""The group of a feature that no node feeds."""


@dataclass(frozen=True)
class Ties:
    """Groups of nodes that can only be resized together, numbered from 0."""

    count: int
    of_nodes: Tensor
    """(total,) the group of each node."""
    of_features: Mapping[str, Tensor]
    """Per layer and normalisation (features,): the group that feeds each input feature, or
    `NOBODY`."""


def ties(topology: Topology) -> Ties:
    """Find the groups.

    >>> from torch import nn
    >>> from uclearn.topology import trace
    >>> net = nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(6, 1))
    >>> found = ties(trace(net, torch.zeros(1, 1, 3), {"0": net[0], "2": net[2]}))
    >>> found.of_nodes
    tensor([0, 1, 2])
    >>> found.of_features["2"]
    tensor([0, 0, 0, 1, 1, 1])
    """
    leader = list(range(topology.total))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for table in topology.sources.values():
        for first, *others in table.unique(dim=0).tolist():
            for other in others:
                if other < topology.total:
                    low, high = sorted((find(first), find(other)))
                    leader[high] = low
    leaders = torch.tensor([find(node) for node in range(topology.total)], dtype=torch.int64)
    numbers, of_nodes = leaders.unique(return_inverse=True)
    padded = torch.cat([of_nodes, torch.tensor([NOBODY])])
    of_features = {name: padded[table[:, 0]] for name, table in topology.sources.items()}
    return Ties(len(numbers), of_nodes, of_features)
