"""The penalties as pure functions: tensors in, a differentiable scalar out.

`ucl` has UCL's: `hold` (eq. 4: drift, eq. 5: freeze) and `spread` (term b and eq. 6), `outputs` has
eq. (4) measured by what nodes say; `quadratic` is that of EWC, SI, MAS and RWalk, `kl` that of VCL.
Each of the others comes in a second form that only adds its closed-form gradient in place.
"""

from uclearn.penalties.closed_form import known_gradient
from uclearn.penalties.kl import add_kl_gradients, kl, kl_and_gradients
from uclearn.penalties.outputs import (
    Given,
    Moved,
    OutputHold,
    half_product,
    output_drift,
    steepest,
)
from uclearn.penalties.quadratic import (
    add_quadratic_gradient,
    quadratic,
    quadratic_and_gradient,
    quadratic_value,
)
from uclearn.penalties.ucl import (
    Grip,
    add_hold_gradient,
    drift,
    freeze,
    hold,
    spread,
    spread_and_gradient,
    spread_gradient,
)

__all__ = [
    "Given",
    "Grip",
    "Moved",
    "OutputHold",
    "add_hold_gradient",
    "add_kl_gradients",
    "add_quadratic_gradient",
    "drift",
    "freeze",
    "half_product",
    "hold",
    "kl",
    "kl_and_gradients",
    "known_gradient",
    "output_drift",
    "quadratic",
    "quadratic_and_gradient",
    "quadratic_value",
    "spread",
    "spread_and_gradient",
    "spread_gradient",
    "steepest",
]
