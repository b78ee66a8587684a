"""Learning tasks one after the other.

`loop` is the one place where the order of a method's hooks is written; `plan` says how long, how
fast and when to slow down; `session` goes from task to task, judges, records and predicts. Several
processes may learn one model (`uclearn.ranks`): `loop` says which examples are whose.
"""

from uclearn.training.plan import Plan
from uclearn.training.session import Outcome, StoppedError, evaluate, learn, predict

__all__ = ["Outcome", "Plan", "StoppedError", "evaluate", "learn", "predict"]
