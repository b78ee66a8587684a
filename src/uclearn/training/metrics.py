"""What the accuracy matrix says: see `uclearn.measures.accuracy`."""

from uclearn.measures.accuracy import *  # noqa: F403
