"""How full a network is: see `uclearn.storage.capacity`, which defines it for live models too."""

from uclearn.storage.capacity import (
    CERTAIN,
    FARTHEST,
    FULL,
    PACE_TASKS,
    Forecast,
    Layer,
    certain_share,
    forecast,
    layers_of,
    outlook_words,
)

SMALLEST = 1e-5
"""Standard deviations are rounded in the records; what became 0 by that is drawn as this."""

__all__ = [
    "CERTAIN",
    "FARTHEST",
    "FULL",
    "PACE_TASKS",
    "SMALLEST",
    "Forecast",
    "Layer",
    "certain_share",
    "forecast",
    "layers_of",
    "outlook_words",
]
