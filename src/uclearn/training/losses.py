"""Losses of single examples, from `uclearn.methods.losses`, where methods find them too."""

from uclearn.methods.losses import Loss, cross_entropy, example_losses, squared_error

__all__ = ["Loss", "cross_entropy", "example_losses", "squared_error"]
