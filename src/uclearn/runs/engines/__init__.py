"""Where runs are made: in processes here (`local`), on a Ray cluster (`ray`), or as Slurm jobs
(`slurm`).

None of them changes a result: a run writes its own folder, wherever it is made, and goes on from
its checkpoint, wherever that was written. Queues, machines and priorities are left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uclearn.errors import SettingError
from uclearn.runs.engines.contract import Audience, Engine

__all__ = ["ENGINES", "Audience", "Engine", "choose"]

ENGINES = ("local", "ray", "slurm")
"""The names of all engines."""


def choose(
    name: str = "local",
    *,
    address: str | None = None,
    slurm: Iterable[str] = (),
    threads: int | None = None,
    gpus: float = 0,
) -> Engine:
    """The engine of that name.

    Args:
        name: one of `ENGINES`.
        address: of the Ray cluster; None: the one that RAY_ADDRESS names or that runs on this
            machine, else one that is started for these runs.
        slurm: settings of the jobs as `key=value`, see `uclearn.runs.engines.slurm`.
        threads: cores for each run; None: one, or for `local` a fair share.
        gpus: GPUs for each run, on a cluster.
    """
    given: dict[str, Any] = {"address": address, "slurm": list(slurm), "gpus": gpus}
    known = {"local": (), "ray": ("address", "gpus"), "slurm": ("slurm", "gpus")}
    if name not in known:
        raise SettingError(f"`on` must be one of {', '.join(ENGINES)}, got {name!r}.")
    for option in (key for key, value in given.items() if value and key not in known[name]):
        owners = " or ".join(f"`on` {owner}" for owner, own in known.items() if option in own)
        raise SettingError(f"`{option}` means nothing for `on` {name}: it goes with {owners}.")
    if name == "ray":
        from uclearn.runs.engines.ray import RayEngine

        return RayEngine(address, threads=threads or 1, gpus=gpus)
    if name == "slurm":
        from uclearn.runs.engines.slurm import SlurmEngine, parse_slurm

        return SlurmEngine(parse_slurm(given["slurm"]), threads=threads or 1, gpus=gpus)
    from uclearn.runs.engines.local import LocalEngine

    return LocalEngine(threads=threads)
