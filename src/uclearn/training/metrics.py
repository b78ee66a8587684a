"""What the accuracy matrix says: see `uclearn.measures.accuracy`."""

from uclearn.measures.accuracy import (
    as_matrix,
    average_accuracy,
    average_over_tasks,
    backward_transfer,
    forgetting,
    forward_transfer,
    intransigence,
    learning_accuracy,
)

__all__ = [
    "as_matrix",
    "average_accuracy",
    "average_over_tasks",
    "backward_transfer",
    "forgetting",
    "forward_transfer",
    "intransigence",
    "learning_accuracy",
]
