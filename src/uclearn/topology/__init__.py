"""Which nodes feed which weights, found by running the model once.

Read `trace` first: it runs a model on an example and follows the identity of every node, as if it
were data, from the layer that makes it to the layers that read it. `rules` says what each kind of
operation does to identities (in `moves`, `windows` and `sums`); `modules` and `operations` watch
the model while it runs; `ties` looks at the result the other way round, from nodes to what reads
them; `sets` keeps sets of nodes as plain numbers and `memory` where they stand.
"""

from uclearn.topology.nodes import node_count, node_dim
from uclearn.topology.ties import Ties, ties
from uclearn.topology.trace import Topology, trace

__all__ = ["Ties", "Topology", "node_count", "node_dim", "ties", "trace"]
