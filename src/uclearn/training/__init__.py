"""Learning tasks one after the other.

`loop` is the one place where the order of a method's hooks is written; `plan` says how long and how
fast; `schedule` when to slow down; `evaluate` and `metrics` how well it went; `session` saves,
resumes and reports. Several processes may learn one model (`uclearn.ranks`): `loop` says which
examples are whose.
"""

from uclearn.training.evaluate import evaluate, predict
from uclearn.training.plan import Plan
from uclearn.training.session import Outcome, StoppedError, learn

__all__ = ["Outcome", "Plan", "StoppedError", "evaluate", "learn", "predict"]
