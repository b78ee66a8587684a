"""UCL as the paper has it: eq. (4) holds the weights themselves, and its numbers are given by hand.

Tests of the paper's equations build it here; those of what people get by default build `UCL`.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from uclearn import UCL

BY_HAND: dict[str, Any] = {"hold": "weights", "beta": 0.01, "sigma": None, "lr_sigma": None}


def paper_ucl(model: nn.Module, example: Any, **settings: Any) -> UCL:
    """UCL with the paper's mechanism; half of the variance is noise unless `settings` say more."""
    settings = {**BY_HAND, **settings}
    if settings["sigma"] is None and settings.get("ratio") is None:
        settings["ratio"] = 0.5
    return UCL(model, example, **settings)
