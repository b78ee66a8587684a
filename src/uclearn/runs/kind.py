"""The kinds of run there are: supervised learning, and reinforcement learning.

A `Kind` is all that sets one apart: its configuration, its presets, how it learns, what its summary
says. Everything else (jobs, grids, engines, records, commands) knows no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from uclearn.paper.settings import Values
from uclearn.runs.config import Configuration, Settings
from uclearn.session import Journal, Observer

if TYPE_CHECKING:
    from uclearn.methods.contract import Method
    from uclearn.runs.job import Job
    from uclearn.tasks.sources.dataset import DataSet

Document = dict[str, Any]
"""A configuration as plain data."""


@dataclass(frozen=True)
class Learned:
    """What a run found: the part of its summary that depends on the kind."""

    method: Method
    seconds: float
    accuracy_matrix: Sequence[Sequence[float]] = ()
    average_accuracy: float | None = None
    forgetting: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


Config = TypeVar("Config", bound=Configuration, covariant=True)


@dataclass(frozen=True)
class Kind(Generic[Config]):
    """One kind of run."""

    name: str
    config: type[Config]
    groups: Callable[[], Mapping[str, type[Settings] | None]]
    """Groups of settings in the order in which they are shown; None: here are the method's own."""
    preset: Callable[[str, str, str], Values]
    """(benchmark, method, preset) -> by dotted key what the preset says, with sources."""
    default_preset: str
    shrink: Callable[[Document, float], None]
    """Leaves a share of the epochs or steps."""
    check_method: Callable[[str], object]
    """Refuses a method that does not work in this kind of run."""
    absent_data: Callable[[Any, Path | None], Sequence[DataSet]]
    """(configuration, folder) -> the data sets that it needs and the folder lacks."""
    learn: Callable[[Any, Job, Journal | None, Observer | None], Learned]
    """(its configuration, ...): goes through with it, from its checkpoint if there is one."""
    command: str
    """What makes such runs, without `uclearn`."""
    many_processes: bool
    """Whether several processes can learn one model (`uclearn.ranks`)."""


def read_config(document: Mapping[str, Any]) -> Configuration:
    """The configuration in a document, such as config.json holds; one of reinforcement learning
    says so in its `kind`."""
    if document.get("kind") == "rl":
        from uclearn.runs.rl import RLConfig

        return RLConfig.from_document(document)
    from uclearn.runs.supervised import RunConfig

    return RunConfig.from_document(document)
