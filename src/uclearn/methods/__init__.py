"""Methods of continual learning behind one contract. Read `contract` first."""

from uclearn.methods.contract import Method, Step
from uclearn.methods.ucl import UCL

__all__ = ["UCL", "Method", "Step"]
