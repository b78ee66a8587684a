"""Plain torch networks: no Bayesian twins, no masked twins; methods convert what they get."""

from uclearn.networks.conv import cifar_network, omniglot_network
from uclearn.networks.heads import MultiHead, has_heads, head_names, run, run_trunk
from uclearn.networks.mlp import mlp

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
