"""Runs: a configuration says everything; a run is made from it, and lies in a folder.

Read `config` (what a run is made from, and what sets supervised and reinforcement learning apart),
`job` (one run, from its configuration to its summary), then `grid` (many of them) and
`engines` (where they are made). `resolve` makes configurations from presets and what a user sets;
`sweep` and `tune` look for settings.
"""

from uclearn.runs.job import Job, run
from uclearn.runs.resolve import resolve
from uclearn.runs.supervised import RunConfig

__all__ = ["Job", "RunConfig", "resolve", "run"]
