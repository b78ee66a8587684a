"""A job: one run to be made, and making it, from its configuration to its summary.

The run is recorded in its folder, resumable, and the same for the same seed. Jobs travel between
processes and machines as JSON. Runs that are kept at a URL are fetched, made in the copy on this
machine, and sent.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import torch

from uclearn.errors import DataError, SettingError, UclearnError
from uclearn.gaussian import GaussianLayer
from uclearn.methods.contract import Method
from uclearn.native import in_use
from uclearn.ranks import Ranks, present
from uclearn.runs.config import Configuration, Learned, read_config
from uclearn.session import Observer, StoppedError
from uclearn.storage.checkpoint import CHECKPOINT_NAME, previous_of
from uclearn.storage.files import FolderBusyError, FolderLock
from uclearn.storage.mirror import Mirror
from uclearn.storage.recorder import (
    RunRecorder,
    environment,
    forget_peak,
    open_run,
    peak_memory,
)
from uclearn.storage.records import (
    CONFIG_NAME,
    SUMMARY_NAME,
    Summary,
    read_document,
    read_summary,
)
from uclearn.tasks.sources.dataset import cache_folder
from uclearn.training.nodes import parameter_count

State = Literal["done", "made", "busy", "failed", "stopped"]
"""Of a run: `done` before, `made` now, `busy` elsewhere, `failed`, or `stopped` by the user."""
JobOutcome = tuple[State, str]
"""What became of a run, and why."""
Tell = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Job:
    """A run to be made: what it is made from, where, and by which means."""

    config: Configuration
    """All that decides the result."""
    folder: Path
    """Where it is recorded; made if absent."""
    data: Path | None = None
    """The folder that holds the data sets."""
    device: str | None = None
    """To learn on, as torch names it; None: a GPU if there is one, else the CPU."""
    threads: int | None = None
    """Cores to use; None: as many as torch does."""
    checkpoint_seconds: float = 30.0
    """How much work a crash may cost."""
    command: str | None = None
    """What was typed, to be noted in the summary."""
    remote: str | None = None
    """A URL where runs are kept; None: the folder is all there is."""

    def to_json(self) -> str:
        """On one line."""
        plain = {**vars(self), "config": self.config.document(), "folder": str(self.folder)}
        return json.dumps({**plain, "data": None if self.data is None else str(self.data)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Back from `to_json`."""
        plain = json.loads(text)
        data = None if plain["data"] is None else Path(plain["data"])
        config, folder = read_config(plain["config"]), Path(plain["folder"])
        return cls(**{**plain, "config": config, "folder": folder, "data": data})

    def __reduce__(self) -> Any:
        # types of settings are made while the program runs, so pickle cannot name them
        return Job.from_json, (self.to_json(),)


def execute(job: Job, tell: Tell) -> JobOutcome:
    """Make the run in this process; whatever goes wrong is an outcome, too."""
    if job.remote is not None:
        return _execute_remote(job, job.remote, tell)
    state: State = "done"  # perhaps by another process, since it was ordered

    def tell_first(event: str, details: dict[str, Any]) -> None:
        nonlocal state
        state = "made"
        tell(event, details)

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    try:
        run(job, tell_first)
    except FolderBusyError as error:
        return "busy", str(error)
    except (StoppedError, KeyboardInterrupt) as error:
        return "stopped", str(error) or "stopped as asked"
    except UclearnError as error:
        return "failed", " ".join(str(error).split())
    except Exception as error:  # a mistake of ours: other runs go on, and nothing is hidden
        job.folder.mkdir(parents=True, exist_ok=True)
        trace = job.folder / "error.txt"
        trace.write_text(traceback.format_exc())
        return "failed", f"{type(error).__name__}: {error} (see {trace})"
    return state, ""


def run(job: Job, observer: Observer | None = None) -> Summary:
    """Make the run, go on with it, or return its summary if it is done.

    Processes that learn one model (see `uclearn.ranks`) all call this; the first alone writes.

    Args:
        job: the run. Another process at work in its folder is an error.
        observer: told what happens (see `uclearn.training.learn` and `uclearn.rl.session.learn`).
    """
    ranks, folder, kind = present(), job.folder, job.config.kind_of_run()
    if ranks.size > 1 and not kind.many_processes:
        raise SettingError(
            f"Reinforcement learning is made by one process, got {ranks.size}. Start it "
            "without torchrun; it divides its environments among processes of its own."
        )
    done = ranks.is_first and is_done(folder, job.config)
    if ranks.any(done)[0]:
        return finished_summary(folder)
    document = _begun_document(folder, job.config)
    with _opened(job, document, ranks) as recorder:
        if ranks.any(recorder is not None and recorder.summary is not None)[0]:
            return finished_summary(folder)
        forget_peak()
        # what it has to say it tells the observer, and the records have it
        logging.getLogger("uclearn").addHandler(logging.NullHandler())
        learned = kind.learn(job.config, job, recorder, observer)
        if recorder is not None:
            recorder.finish(_summary(job, document, learned))
            # it has served its purpose
            previous_of(folder / CHECKPOINT_NAME).unlink(missing_ok=True)
        ranks.wait()  # until the summary stands
    return finished_summary(folder)


def is_done(folder: Path, config: Configuration) -> bool:
    """Whether `folder` holds the complete run of that configuration."""
    return read_summary(folder) is not None and _stored(folder) == config.fingerprint()


def finished_summary(folder: Path) -> Summary:
    """The summary of a run that is done, as it stands on the disk."""
    summary = read_summary(folder)
    if summary is None:
        raise DataError(f"The run in {folder} is not complete. `uclearn resume {folder}` goes on.")
    return summary


def _stored(folder: Path) -> str | None:
    """The fingerprint of the run that was begun in `folder`; None: there is none that can be read
    by this version. Of a finished run the summary alone may have been kept."""
    begun = read_document(folder / CONFIG_NAME) or read_document(folder / SUMMARY_NAME)
    if begun is None:
        return None
    try:
        return read_config(begun["config"]).fingerprint()
    except ValueError:  # settings that this version does not know
        return None


def _begun_document(folder: Path, config: Configuration) -> Mapping[str, Any]:
    """What the record of a run says it is made from: `config`, or, where the same run was begun
    with a note worded differently, its own words."""
    begun = read_document(folder / CONFIG_NAME)
    if begun is None or _stored(folder) != config.fingerprint():
        return config.document()
    document: Mapping[str, Any] = begun["config"]
    return document


@contextmanager
def _opened(job: Job, document: Mapping[str, Any], ranks: Ranks) -> Iterator[RunRecorder | None]:
    """The run's record, for the first process; the others have none."""
    if not ranks.is_first:
        yield None
        return
    doing = f"uclearn {job.config.kind_of_run().command} {job.config.folder_name()}"
    with open_run(job.folder, document, doing) as recorder:
        yield recorder


def _summary(job: Job, document: Mapping[str, Any], learned: Learned) -> Summary:
    made = environment()
    size, device = present().size, next(learned.method.parameters()).device
    return Summary(
        config=document,
        accuracy_matrix=learned.accuracy_matrix,
        average_accuracy=learned.average_accuracy,
        forgetting=learned.forgetting,
        seconds=learned.seconds,
        peak_memory=peak_memory(),
        parameters_kept=parameter_count(learned.method),
        versions=made["versions"],
        git_commit=made["git_commit"],
        machine=made["machine"],
        extra={
            **learned.extra,
            "threads": torch.get_num_threads(),
            **_work_on_weights(learned.method),
            # what is not one process on a CPU
            **({"processes": size} if size > 1 else {}),
            **({} if device.type == "cpu" else {"device": device.type}),
            **({} if job.command is None else {"command": job.command}),
        },
    )


def _work_on_weights(method: Method) -> dict[str, str]:
    """Who drew the weights of a method that has Gaussian layers: times differ by it."""
    layers = [each for each in method.modules() if isinstance(each, GaussianLayer)]
    if not layers:
        return {}
    on_cpu = layers[0].rho.device.type == "cpu"
    return {"weights": in_use() if on_cpu else "torch"}


def remote_runs(url: str) -> Mirror:
    """Runs at `url`, with copies in uclearn's cache folder."""
    return Mirror(url, cache_folder() / "copies")


def even_out(jobs: Sequence[Job]) -> None:
    """Runs that are complete here or there are complete on both sides, so that nobody makes them
    again; those that a process here is at work on are left alone."""
    kept_at = [(job, job.remote) for job in jobs if job.remote is not None]
    mirrors = {url: remote_runs(url) for url in {url for _, url in kept_at}}
    for job, url in kept_at:
        kept, name = mirrors[url], job.config.folder_name()
        here, there = (job.folder / SUMMARY_NAME).exists(), kept.is_done(name)
        if there and not here:
            with suppress(FolderBusyError):
                _fetch(kept, name)
        elif here and not there:
            kept.send(name)


def _fetch(kept: Mirror, name: str) -> Path:
    folder = kept.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder, "uclearn, fetching the run"):
        kept.fetch(name)
    return folder


def _execute_remote(job: Job, url: str, tell: Tell) -> JobOutcome:
    """Make the run of a job in the copy that this machine has of `url`."""
    name = job.config.folder_name()
    try:
        kept = remote_runs(url)
        folder = _fetch(kept, name)
    except FolderBusyError as error:
        return "busy", str(error)
    except UclearnError as error:
        return "failed", str(error)

    def tell_and_send(event: str, details: dict[str, Any]) -> None:
        tell(event, details)
        if event == "saved":
            kept.send(name)

    outcome = execute(replace(job, folder=folder, remote=None), tell_and_send)
    if outcome[0] in ("made", "done"):
        try:
            kept.send(name)
        except UclearnError as error:
            return "failed", str(error)
    return outcome
