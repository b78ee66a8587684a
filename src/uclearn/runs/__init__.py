"""Experiments: a configuration says everything, a run is made from it and lies in a folder.

`config` is what a run is made from, `presets` where its values come from, `run` makes one, `grid`
many at once. `sweep` tries values; what is run to do the paper's experiments again stands in
`uclearn.paper.studies`.
"""

from uclearn.runs.config import RunConfig
from uclearn.runs.overrides import resolve
from uclearn.runs.run import run

__all__ = ["RunConfig", "resolve", "run"]
