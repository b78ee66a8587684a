"""Networks made larger or smaller without a change in what they compute.

`growth` adds nodes, `outputs` adds classes, `prune` takes out the nodes that no task relies on
(`reliance`: how much it relies on each). Below them: `anatomy` (what can be resized, and what
stands against it) and `resize` (resizing, and proof that all still fits together).
"""
