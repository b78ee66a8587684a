"""Trainers that people already use.

`attach` is all that most of them need: a method that follows an optimiser. `transformers` holds a
`Trainer` that remembers and `lightning` a callback; import them from there, so that nobody needs
packages of others.
"""

from uclearn.integrations.optimizers import attach

__all__ = ["attach"]
