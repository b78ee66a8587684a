"""A state on disk: one safetensors file, no pickle, and the one before it.

Beside `checkpoint.safetensors` stands `checkpoint.previous.safetensors`. At every moment of a save
at least one of them is sound, even if the other was damaged before:

    1. the present file also gets a second name, aside
    2. the new one is written aside, flushed to the disk and renamed to the present
    3. the second name of step 1 is renamed to the previous
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from uclearn.errors import CheckpointError
from uclearn.storage.container import State, pack, unpack
from uclearn.storage.files import (
    Chunk,
    StorageError,
    aside_of,
    refusal,
    remove_leftovers,
    write_chunks,
)

CHECKPOINT_NAME = "checkpoint.safetensors"

_REMEDY = "Restore one from a copy, or start afresh in an empty folder."


def save(path: Path, state: State, kind: str, *, sync: bool = True) -> None:
    """Write `state` to the file `path` and keep the one that stood there as the previous.

    `state` is any nesting of dict (keys str or int), list, tuple, None, bool, int, float, str and
    Tensor. Tensors are saved as values: memory that two of them share is saved twice. `kind` says
    what the state is of (`"run"`, `"method"`), so that it is not loaded as something else. One
    process at a time may save to a `path` (see `files.FolderLock`). `sync=False` is for states that
    may be lost in a power cut; a killed process loses nothing either way.
    """
    chunks = pack(state, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _rotate(path, chunks, sync)
    except StorageError:
        raise
    except OSError as error:
        remedy = "Nothing sound was lost; check the disk, its space and its permissions."
        raise refusal("save to", path, error, remedy) from error


def load(path: Path, kind: str, device: torch.device | str = "cpu") -> Any:
    """The state that `save` wrote to the file `path`, its tensors on `device`.

    Whatever is not a sound checkpoint of this `kind` is refused with its reason. `load_state_dict`
    moves tensors by itself and generators want theirs on the CPU, so `device` is rarely needed.
    """
    try:
        return _load(path, kind, device)
    except CheckpointError as error:
        raise CheckpointError(f"{error} {_REMEDY}") from error


def load_latest(
    folder: Path, kind: str, device: torch.device | str = "cpu"
) -> tuple[Any, str | None]:
    """The newest sound state in `folder`, and a note for the user if it is not the newest file.

    The previous checkpoint is used where the present one is refused; where that is refused too,
    the error gives both reasons.
    """
    present = folder / CHECKPOINT_NAME
    previous = previous_of(present)
    try:
        return _load(present, kind, device), None
    except CheckpointError as error:
        reason = str(error)
    try:
        state = _load(previous, kind, device)
    except CheckpointError as error:
        raise CheckpointError(f"{reason} {error} {_REMEDY}") from error
    return state, f"{reason} Continuing from the one before it, {previous}."


def load_own(folder: Path, kind: str, of: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """As `load_latest`, for a state whose key `of` says what it belongs to: refused where that is
    something else."""
    state, note = load_latest(folder, kind)
    there = state["of"]
    differing = [key for key in {**of, **there} if of.get(key) != there.get(key)]
    if differing:
        raise CheckpointError(
            f"The checkpoint in {folder} belongs to another session: it differs in "
            f"{', '.join(differing)}. Choose another folder, or the same settings."
        )
    return dict(state), note


def has_checkpoint(folder: Path) -> bool:
    """Whether `folder` holds a checkpoint for `load_latest` to try, sound or not."""
    present = folder / CHECKPOINT_NAME
    return present.exists() or previous_of(present).exists()


def previous_of(path: Path) -> Path:
    """Where the checkpoint before the one in `path` is kept.

    >>> previous_of(Path("checkpoint.safetensors")).name
    'checkpoint.previous.safetensors'
    """
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def _load(path: Path, kind: str, device: torch.device | str) -> Any:
    try:
        return unpack(path.read_bytes(), kind, device)
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint {path}.") from error
    except (CheckpointError, OSError) as error:
        raise CheckpointError(f"Checkpoint {path} cannot be used: {error}.") from error


def _rotate(path: Path, chunks: Iterable[Chunk], sync: bool) -> None:
    """Replace `path` by `chunks`, and the previous by what `path` was."""
    previous = previous_of(path)
    for name in (path, previous):
        remove_leftovers(name)
    if not path.exists():
        write_chunks(path, chunks, sync=sync)
        return
    kept = aside_of(previous)
    try:
        try:
            os.link(path, kept)
        except OSError:  # a file system without links: a copy is slower and does as well
            shutil.copyfile(path, kept)
        write_chunks(path, chunks, sync=sync)
        kept.replace(previous)  # lost in a power cut, it leaves an older one: no need to sync
    finally:
        with suppress(OSError):
            kept.unlink()  # there only if something failed
