"""Which nodes feed which weights, found by running the model once.

Read `trace` first: it runs a model on an example and follows the identity of every node, as if it
were data, from the layer that makes it to the layers that read it. `rules` and `unions` say what
each kind of operation does to identities; `watch` follows the model while it runs; `sets` keeps
sets of nodes as plain numbers, and where in memory they stand. `ports` makes the inputs and outputs
of a network visible to a trace.
"""

from uclearn.topology.trace import Ties, Topology, copied, ties, trace, without_shortcuts
from uclearn.topology.watch import node_count, node_dim

__all__ = [
    "Ties",
    "Topology",
    "copied",
    "node_count",
    "node_dim",
    "ties",
    "trace",
    "without_shortcuts",
]
