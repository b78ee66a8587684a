"""The kinds of runs there are: which configuration a document holds, and what makes its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError
from uclearn.ranks import present
from uclearn.runs.config import Configuration, RunConfig
from uclearn.storage.records import CONFIG_NAME, SUMMARY_NAME, Summary, read_document
from uclearn.training.session import Observer


def read_config(document: Mapping[str, Any]) -> Configuration:
    """The configuration in a document, such as config.json holds; learning to act says so in its
    `kind`."""
    if document.get("kind") == "rl":
        from uclearn.runs.rl.config import RLConfig

        return RLConfig.from_document(document)
    return RunConfig.from_document(document)


def read_config_json(text: str) -> Configuration:
    """The configuration that `Configuration.to_json` wrote."""
    return read_config(json.loads(text))


def make_run(
    config: Configuration,
    folder: Path,
    data: Path | None,
    progress: Observer,
    *,
    checkpoint_seconds: float = 30.0,
    command: str | None = None,
    processes: int = 1,
    device: str | None = None,
) -> Summary:
    """Make the run of any kind in `folder`, go on with it, or return its summary if it is done.

    `processes`: how many a run may start of its own; they change no result. `device`: see
    `uclearn.runs.run`; learning to act takes the CPU.
    """
    if isinstance(config, RunConfig):
        from uclearn.runs.run import run

        return run(
            config,
            folder,
            data,
            progress,
            checkpoint_seconds=checkpoint_seconds,
            command=command,
            device=device,
        )
    from uclearn.runs.rl.config import RLConfig
    from uclearn.runs.rl.run import run as run_rl

    if present().size > 1:
        raise SettingError(
            f"Reinforcement learning is made by one process, got {present().size}. Start it "
            "without torchrun; it divides its environments among processes of its own."
        )

    assert isinstance(config, RLConfig)
    return run_rl(config, folder, progress, workers=processes, command=command)


def stored_config(folder: Path) -> str | None:
    """The fingerprint of the run that was begun in `folder`; None: there is none that can be read
    by this version. Of a finished run the summary alone may have been kept."""
    begun = read_document(folder / CONFIG_NAME, "config") or read_document(
        folder / SUMMARY_NAME, "summary"
    )
    if begun is None:
        return None
    try:
        return read_config(begun["config"]).fingerprint()
    except ValueError:  # settings that this version does not know
        return None


def begun_document(folder: Path, config: Configuration) -> Mapping[str, Any]:
    """What the record of a run says it is made from: `config`, or, where the same run was begun
    with a note worded differently, its own words."""
    begun = read_document(folder / CONFIG_NAME, "config")
    if begun is None or stored_config(folder) != config.fingerprint():
        return config.document()
    document: Mapping[str, Any] = begun["config"]
    return document
