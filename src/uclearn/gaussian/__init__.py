"""Layers with a mean per weight and one standard deviation per node, and how a network gets them.

`layers` holds the layers, `convert` puts them into a network, says where they start and takes them
out again, `draws` switches the noise by hand, `noise` makes it.
"""

from uclearn.gaussian.convert import (
    Survey,
    convert,
    export,
    register_layer,
    register_norm,
    require_convertible,
    survey,
)
from uclearn.gaussian.draws import hold_draws, use_means, use_samples
from uclearn.gaussian.layers import GaussianLayer, Sampling
from uclearn.gaussian.noise import Noise, NoiseKind

__all__ = [
    "GaussianLayer",
    "Noise",
    "NoiseKind",
    "Sampling",
    "Survey",
    "convert",
    "export",
    "hold_draws",
    "register_layer",
    "register_norm",
    "require_convertible",
    "survey",
    "use_means",
    "use_samples",
]
