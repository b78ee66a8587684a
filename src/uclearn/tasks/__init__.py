"""What there is to learn: examples, tasks, and tasks in sequence.

Read `data` (examples stored once, batches prepared when asked for), then `task` (a task, tasks in
sequence, and how one data set becomes such a sequence). `sources` reads files; `benchmarks` names
the sequences that are ready made.
"""

from uclearn.tasks.data import Batch, Data, DataLike, Joined, iterate, join
from uclearn.tasks.loader import FromLoader, stored
from uclearn.tasks.task import (
    Task,
    TaskSequence,
    hold_out,
    in_sequence,
    permuted,
    row_permuted,
    split,
)

__all__ = [
    "Batch",
    "Data",
    "DataLike",
    "FromLoader",
    "Joined",
    "Task",
    "TaskSequence",
    "hold_out",
    "in_sequence",
    "iterate",
    "join",
    "permuted",
    "row_permuted",
    "split",
    "stored",
]
