"""More nodes for a network that has learned: see `uclearn.surgery.widen`."""

from uclearn.surgery.widen import widen, widen_network

__all__ = ["widen", "widen_network"]
