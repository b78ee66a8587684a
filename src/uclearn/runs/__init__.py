"""Experiments: a configuration says everything, a run is made from it and lies in a folder.

`config` is what a run is made from, `presets` where its values come from, `run` makes one, `grid`
many at once; `ablate`, `sweep` and `reproduce` are lists of configurations with a purpose.
"""

from uclearn.runs.config import RunConfig
from uclearn.runs.overrides import resolve
from uclearn.runs.run import run

__all__ = ["RunConfig", "resolve", "run"]
