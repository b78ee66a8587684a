"""Plain torch networks: no Bayesian twins, no masked twins; methods convert what they get."""

from uclearn.networks.heads import MultiHead, has_heads, head_names, run, run_trunk

__all__ = ["MultiHead", "has_heads", "head_names", "run", "run_trunk"]
