"""Plain torch networks: no Bayesian twins, no masked twins; methods convert what they get."""

from uclearn.networks.build import cifar_network, mlp, omniglot_network
from uclearn.networks.heads import MultiHead, has_heads, head_names, run, run_trunk

__all__ = [
    "MultiHead",
    "cifar_network",
    "has_heads",
    "head_names",
    "mlp",
    "omniglot_network",
    "run",
    "run_trunk",
]
