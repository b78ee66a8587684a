"""Runs that are kept at a URL: fetched, made in the copy on this machine, and sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from uclearn.errors import UclearnError
from uclearn.runs.job import Job, JobOutcome, Tell, execute
from uclearn.storage.files import FolderBusyError, FolderLock
from uclearn.storage.mirror import Mirror
from uclearn.storage.records import SUMMARY_NAME
from uclearn.tasks.sources.dataset import cache_folder


def remote_runs(url: str) -> Mirror:
    """Runs at `url`, with copies in uclearn's cache folder."""
    return Mirror(url, cache_folder() / "copies")


def even_out(jobs: Sequence[Job]) -> None:
    """Runs that are complete here or there are complete on both sides, so that nobody makes them
    again; those that a process here is at work on are left alone."""
    urls = {job.remote for job in jobs if job.remote is not None}
    mirrors = {url: remote_runs(url) for url in urls}
    for job in jobs:
        if job.remote is None:
            continue
        kept, name = mirrors[job.remote], job.config.folder_name()
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


def execute_remote(job: Job, url: str, tell: Tell) -> JobOutcome:
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
