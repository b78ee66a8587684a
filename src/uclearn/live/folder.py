"""A learner's folder: saved all at once, loaded without executing code, one writer at a time.

    learner.json             what this folder is: format and version, for whoever comes later
    checkpoint.safetensors   everything: weights, what the method remembers, canaries, journal
    checkpoint.previous.*    the state before
    journal.jsonl            every update, one JSON object per line, for reading; it only grows
    .lock                    held while somebody learns or saves here

Reading needs no lock: files are replaced whole.
"""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from uclearn.errors import CheckpointError, DataError
from uclearn.fields import Fields
from uclearn.live.blueprint import describe, rebuild
from uclearn.live.canaries import TaskRecord
from uclearn.live.journal import append_missing, merged, packed, read_journal, unpacked
from uclearn.live.table import Knows
from uclearn.methods.losses import Loss
from uclearn.storage.checkpoint import CHECKPOINT_NAME, has_checkpoint, load_latest
from uclearn.storage.checkpoint import save as save_state
from uclearn.storage.files import (
    FolderLock,
    refusal,
    sweep,
)
from uclearn.storage.sealed import read_sealed, write_sealed
from uclearn.surgery.outputs import Sizes, resize_to, sizes
from uclearn.tasks.own.encoding import Encoding
from uclearn.training.plan import Plan

if TYPE_CHECKING:
    from uclearn.live.learner import Learner

FORMAT = "uclearn.learner"
VERSION = 2
MARKER_NAME = "learner.json"
_FIRST_DEFAULTS: dict[str, dict[str, Any]] = {
    "ucl": {
        "hold": "weights",
        "beta": 0.01,
        "sigma": None,
        "lr_sigma": None,
        "batch_norm": "shared",
    },
    "ewc": {"strength": 30.0},
    "si": {"strength": 1.0},
    "mas": {"strength": 0.1},
    "rwalk": {"strength": 1.0},
    "lwf": {"strength": 1.0},
}
"""By method what version 1 took where nothing was said: a learner goes on as it began."""


SavedState = tuple[int, int, int]
"""Tells one saved state from all others: inode, time and size of its file."""


def saved_state(folder: Path) -> SavedState:
    """The one that is in `folder` now; each save makes a new file."""
    try:
        found = (folder / CHECKPOINT_NAME).stat()
    except FileNotFoundError:  # only the previous one is left
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


def _refuse_to_replace(known: SavedState | None, folder: Path) -> None:
    """Refuse a folder that holds another state than the `known` one."""
    if known is None:
        raise CheckpointError(
            f"{folder} holds another learner, which would be lost. Save to a folder of its "
            "own, or load that one and go on with it."
        )
    if known != saved_state(folder):
        raise CheckpointError(
            f"{folder} was saved to by somebody else since this learner was loaded; saving now "
            "would undo that. Load it again and repeat the update, or save to another folder. "
            "`with Learner.open(folder) as learner:` keeps others out from the start."
        )


def save(learner: Learner, folder: Path) -> None:
    """Write everything, locked, unless that would lose something."""
    make(folder)
    with FolderLock(folder, "learning"):
        write(learner, folder)


def write(learner: Learner, folder: Path) -> None:
    """As `save`, by whoever holds the lock."""
    sweep(folder)
    written = check_version(folder)
    if has_checkpoint(folder):
        _refuse_to_replace(learner._continues.get(folder.resolve()), folder)
    if written < VERSION:  # from now on older versions cannot read it, and are told so
        write_sealed(folder / MARKER_NAME, {"format": FORMAT, "version": VERSION})
    save_state(folder / CHECKPOINT_NAME, state_of(learner), FORMAT)
    learner._continues[folder.resolve()] = saved_state(folder)
    append_missing(folder, learner.journal)


def make(folder: Path) -> None:
    """Make the folder if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal("make", folder, error, "Choose another place.") from error


def load(cls: type[Learner], folder: Path, model: nn.Module | None, loss: Loss | None) -> Learner:
    """The learner in `folder`; see `Learner.load`."""
    check_version(folder)
    if not has_checkpoint(folder):
        raise CheckpointError(
            f"There is no learner in {folder}. `Learner.save(folder)` or `uclearn learn` makes one."
        )
    before = saved_state(folder)  # what is saved while we read is not ours
    state, note = load_latest(folder, FORMAT)
    network = _network(state, model)
    learner = cls(
        network,
        state["method"],
        example=state["example"],
        plan=Plan(**state["plan"]),
        loss=_loss(state, loss),
        **_settings(state),
    )
    if state["state"] is not None:
        learner.method.load_state_dict(state["state"])
    learner._first_sizes = state["first_sizes"]
    learner.encoding = _encoding(state)
    learner.tasks = {saved["name"]: TaskRecord.from_document(saved) for saved in state["tasks"]}
    # after a fall back to the previous state the file knows more, after a kill between the two less
    learner.journal = merged(read_journal(folder), unpacked(state["journal"]))
    learner.note = note
    learner._continues[folder.resolve()] = before
    return learner


def knows(folder: Path) -> Knows:
    """What the learner in `folder` was taught from; nothing where there is none yet."""
    if not has_checkpoint(folder):
        return Knows()
    state = load_latest(folder, FORMAT)[0]
    example = state["example"]
    shape = tuple(example.shape[1:]) if isinstance(example, Tensor) else None
    return Knows(shape, _encoding(state))


def _encoding(state: dict[str, Any]) -> Encoding | None:
    saved = state.get("encoding")
    return None if saved is None else Encoding.from_document(saved)


def _settings(state: dict[str, Any]) -> dict[str, Any]:
    """What the method was built with, as far as it differs from the defaults of today."""
    own: dict[str, Any] = state["settings"]
    if state["version"] > 1:
        return own
    method = state["method"].split("+")[0]
    meant = {**_FIRST_DEFAULTS.get(method, {}), **own}
    if method == "ucl" and meant["sigma"] is None:
        meant.setdefault("ratio", 0.5)
    return meant


def state_of(learner: Learner) -> dict[str, Any]:
    """All there is of a learner."""
    blank, example = learner._blank, learner.example
    method = learner._method
    return {
        "version": VERSION,
        "method": learner.method_name,
        "settings": learner.settings,
        "plan": asdict(learner.plan),
        "loss": None if learner.loss is None else _name(learner.loss),
        "network": describe(blank),
        "class": f"{type(blank).__module__}.{type(blank).__qualname__}",
        "sizes": sizes(blank),
        "first_sizes": learner._first_sizes,
        "example": dict(example.items()) if isinstance(example, Fields) else example,
        "encoding": None if learner.encoding is None else learner.encoding.document(),
        # before the method is built the network's own weights are all there is
        "weights": dict(blank.state_dict()) if method is None else None,
        "state": None if method is None else dict(method.state_dict()),
        "tasks": [known.document() for known in learner.tasks.values()],
        "journal": packed(learner.journal),
    }


def _network(state: dict[str, Any], model: nn.Module | None) -> nn.Module:
    if model is not None:
        model = _fitting(state, model)
    elif state["network"] is not None:
        model = rebuild(state["network"])
    else:
        raise CheckpointError(
            f"The network is a {state['class']}, which cannot be rebuilt from a file: loading "
            "executes no code. Hand in a freshly built one: `Learner.load(folder, model=...)`."
        )
    if state["weights"] is not None:
        model.load_state_dict(state["weights"])
    return model


def _fitting(state: dict[str, Any], model: nn.Module) -> nn.Module:
    """A copy of `model`, as large as the network that was saved."""
    given = sizes(model)
    differing = _differing(given, state["sizes"])
    if differing and _differing(given, state["first_sizes"]):
        raise CheckpointError(
            f"`model` must be built as the network that was saved, a {state['class']}; it differs "
            f"in {', '.join(differing[:3])}{', ...' if len(differing) > 3 else ''}."
        )
    return resize_to(copy.deepcopy(model), state["sizes"])


def _differing(given: Sizes, wanted: Sizes) -> list[str]:
    return [
        f"{name} ({given.get(name)} instead of {wanted.get(name)})"
        for name in sorted({*given, *wanted})
        if given.get(name) != wanted.get(name)
    ]


def _loss(state: dict[str, Any], loss: Loss | None) -> Loss | None:
    if state["loss"] is not None and loss is None:
        raise CheckpointError(
            f"This learner was trained with a loss of its own, {state['loss']}, which no file can "
            "hold. Hand it in: `Learner.load(folder, loss=...)`."
        )
    return loss


def _name(loss: Loss) -> str:
    return f"{loss.__module__}.{getattr(loss, '__qualname__', type(loss).__qualname__)}"


def check_version(folder: Path) -> int:
    """Of what is in `folder`, 0: nothing yet. Refuse one whose marker is damaged, or of a version
    that is not known yet."""
    marker = folder / MARKER_NAME
    if not marker.exists():
        return 0
    found = read_sealed(marker)
    if found.get("format") != FORMAT:
        raise DataError(f"{marker} does not describe a learner. Choose another folder.")
    version = found.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise CheckpointError(
            f"{folder} was written by a newer uclearn: its version is {version}, this one knows up "
            f"to {VERSION}. Update uclearn to use it; nothing was changed."
        )
    return version
