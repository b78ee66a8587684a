"""Layers with a mean per weight and one standard deviation per node, and how a network gets them.

`layers` holds the layers, `kinds` says what becomes which of them, `survey` what conversion would
do with a network, `convert` puts them in, says where they start and takes them out again, `draws`
switches the noise by hand, `noise` makes it.
"""

from uclearn.gaussian.convert import convert, export
from uclearn.gaussian.draws import hold_draws, use_means, use_samples
from uclearn.gaussian.kinds import register_layer, register_norm
from uclearn.gaussian.layers import GaussianLayer, Sampling
from uclearn.gaussian.noise import Noise, NoiseKind
from uclearn.gaussian.survey import Survey, require_convertible, survey

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
