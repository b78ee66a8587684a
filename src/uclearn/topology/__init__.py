"""Which nodes feed which weights, found by running the model once.

Read `trace` first: it runs a model on an example and follows the identity of every node, as if it
were data, from the layer that makes it to the layers that read it. `rules` says what each kind of
operation does to identities; `sets` keeps sets of nodes as plain numbers.
"""

from uclearn.topology.trace import Topology, node_count, node_dim, trace

__all__ = ["Topology", "node_count", "node_dim", "trace"]
