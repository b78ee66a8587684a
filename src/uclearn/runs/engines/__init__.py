"""Where runs are made: in processes here (`local`), on a Ray cluster (`ray`), or as Slurm jobs
(`slurm`).

None of them changes a result: a run writes its own folder, wherever it is made, and goes on from
its checkpoint, wherever that was written. Queues, machines and priorities are left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from uclearn.errors import SettingError
from uclearn.runs.job import Job, State

ENGINES = ("local", "ray", "slurm")
"""The names of all engines."""


class JobListener(Protocol):
    """Is told what becomes of jobs, in the process that ordered them."""

    def tell(self, job: Job, event: str, details: dict[str, Any]) -> None:
        """Something happened in a run."""
        ...

    def note(self, job: Job, state: State, message: str) -> None:
        """The run is over, for now or for good."""
        ...


class Engine(Protocol):
    """Makes runs somewhere."""

    @property
    def threads(self) -> int | None:
        """Cores for each run; None: a fair share of this machine's."""
        ...

    def run(self, jobs: Sequence[Job], at_once: int | None, listener: JobListener) -> None:
        """Make the runs, `at_once` at a time (None: as many as there is room for), and note what
        became of each: of every job exactly once."""
        ...


def choose(
    on: str = "local",
    *,
    address: str | None = None,
    slurm: Iterable[str] | None = None,
    threads: int | None = None,
    gpus: float = 0,
) -> Engine:
    """The engine of that name.

    Args:
        on: the name of one of `ENGINES`.
        address: of the Ray cluster; None: the one that RAY_ADDRESS names or that runs on this
            machine, else one that is started for these runs.
        slurm: settings of the jobs as `key=value`, see `uclearn.runs.engines.slurm`.
        threads: cores for each run; None: one, or for `local` a fair share.
        gpus: GPUs for each run, on a cluster.
    """
    given: dict[str, Any] = {"address": address, "slurm": list(slurm or ()), "gpus": gpus}
    known = {"local": (), "ray": ("address", "gpus"), "slurm": ("slurm", "gpus")}
    if on not in known:
        raise SettingError(f"`on` must be one of {', '.join(ENGINES)}, got {on!r}.")
    for option in (key for key, value in given.items() if value and key not in known[on]):
        owners = " or ".join(f"`on` {owner}" for owner, own in known.items() if option in own)
        raise SettingError(f"`{option}` means nothing for `on` {on}: it goes with {owners}.")
    if on == "ray":
        from uclearn.runs.engines.ray import RayEngine

        return RayEngine(address, threads=threads or 1, gpus=gpus)
    if on == "slurm":
        from uclearn.runs.engines.slurm import SlurmEngine, parse_slurm

        return SlurmEngine(parse_slurm(given["slurm"]), threads=threads or 1, gpus=gpus)
    from uclearn.runs.engines.local import LocalEngine

    return LocalEngine(threads=threads)
