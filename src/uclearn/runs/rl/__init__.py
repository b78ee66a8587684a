"""Experiments of reinforcement learning: the same configurations, runs and grids as for supervised
learning, over sequences of environments."""
