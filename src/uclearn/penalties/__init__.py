"""The penalties as pure functions: tensors in, a differentiable scalar out.

`hold` (eq. 4: drift, eq. 5: freeze) and `spread` (term b and eq. 6) make up UCL's. Each comes in a
second form that only adds its closed-form gradient in place.
"""

from uclearn.penalties.closed_form import known_gradient
from uclearn.penalties.hold import Grip, add_hold_gradient, drift, freeze, hold
from uclearn.penalties.spread import spread, spread_and_gradient, spread_gradient

__all__ = [
    "Grip",
    "add_hold_gradient",
    "drift",
    "freeze",
    "hold",
    "known_gradient",
    "spread",
    "spread_and_gradient",
    "spread_gradient",
]
