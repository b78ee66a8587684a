"""Trainers that people already use.

`attach` is all that most of them need: a method that follows an optimiser. `transformers` holds a
`Trainer` that remembers; import it from there, so that the others need no transformers.
"""

from uclearn.integrations.optimizers import attach

__all__ = ["attach"]
