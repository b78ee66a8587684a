"""More nodes for a network that has learned: see `uclearn.surgery.growth`."""

from uclearn.surgery.growth import widen, widen_network

__all__ = ["widen", "widen_network"]
