"""What is tuned, and where its runs are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError
from uclearn.runs.config import Configuration
from uclearn.runs.grid import GridObserver, Result, run_all
from uclearn.runs.spaces import Space, default_space
from uclearn.runs.sweep import FIRST_TASKS, Candidate, candidates


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how; the same tuning is the same study."""

    benchmark: str
    method: str
    space: Space = field(default_factory=dict)
    """Empty: the method's default, see `uclearn.runs.spaces`."""
    preset: str = "best"
    tasks: int | None = FIRST_TASKS
    """Judged by the first so many; None: by all, which nobody can do who learns one by one."""
    seeds: int = 1
    """Runs for each trial."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all trials share, by dotted key."""

    def searched(self) -> Space:
        """The space, or the default one."""
        space = self.space or default_space(self.benchmark, self.method, self.preset)
        if not space:
            raise SettingError(
                f"{self.method} has no setting that is tuned by default. Say what to search, as "
                "--space plan.lr=1e-4..1e-2:log."
            )
        return space

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """The runs of one trial."""
        grid = {key: [value] for key, value in values.items()}
        (found,) = candidates(
            self.benchmark,
            self.method,
            grid,
            preset=self.preset,
            seeds=self.seeds,
            tasks=self.tasks,
            overrides=self.overrides,
        )
        return found

    def name(self) -> str:
        """Of the study: whatever can change a trial's result stands behind it."""
        space = {key: list(each) for key, each in self.searched().items()}
        content = [space, self.preset, self.tasks, self.seeds, dict(self.overrides)]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.benchmark}-{self.method}-{digest}"


@dataclass(frozen=True)
class Maker:
    """Where the runs of trials are made, and who is told."""

    out: Path
    data: Path | None = None
    observer: GridObserver | None = None
    checkpoint_seconds: float = 30.0
    command: str | None = None

    def make(self, config: Configuration, observer: GridObserver) -> Result:
        """One run, in this process."""

        def tell(config: Configuration, event: str, details: dict[str, Any]) -> None:
            if self.observer is not None:
                self.observer(config, event, details)
            observer(config, event, details)

        (result,) = run_all(
            {self.folder(config): config},
            data=self.data,
            observer=tell,
            checkpoint_seconds=self.checkpoint_seconds,
            command=self.command,
        )
        return result

    def folder(self, config: Configuration) -> Path:
        """Of a run."""
        return self.out / config.folder_name()
