"""Omniglot: 50 alphabets, a folder of PNG files for each character, 20 drawings of each."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import data_folder, locate
from uclearn.tasks.sources.folder import (
    cached,
    class_folders,
    fingerprint,
    picture_files,
    read_picture,
)

_DRAWN = 105  # pixels a side in the files
SIDE = 28  # pixels a side here, as in the paper
# Characters of each alphabet, in the order of `load`; 1,623 in all.
CLASSES = (
    *(20, 29, 26, 41, 40, 24, 46, 14, 26, 34, 33, 22, 26, 43, 24, 48, 22, 16, 52, 47, 40, 26, 40),
    *(41, 33, 14, 42, 23, 17, 55),  # the background set ends here
    *(20, 26, 26, 26, 26, 26, 45, 45, 41, 26, 47, 40, 30, 45, 46, 28, 23, 25, 42, 26),
)


class Drawings(NamedTuple):
    """All drawings in one array, alphabet by alphabet, character by character."""

    inputs: Tensor  # (drawings, 28, 28) uint8: the share of ink, 0 paper to 255 ink
    alphabets: Tensor  # (drawings,) int64: which alphabet
    characters: Tensor  # (drawings,) int64: which character of its alphabet, from 0
    names: tuple[str, ...]  # of the alphabets


def load(folder: str | Path | None = None) -> Drawings:
    """All 50 alphabets: the 30 of the background set, then the 20 of the evaluation set, each set
    in alphabetical order."""
    base = data_folder(folder)
    roots = locate(dataset("omniglot"), base)
    alphabets = [alphabet for root in roots.values() for alphabet in class_folders(root)]
    folders = [class_folders(alphabet) for alphabet in alphabets]  # of characters, by alphabet
    tensors, note = cached(
        base,
        f"omniglot-{SIDE}.safetensors",
        fingerprint(chain.from_iterable(folders), base),
        lambda: (_read_all(folders), json.dumps([alphabet.name for alphabet in alphabets])),
    )
    return Drawings(
        tensors["inputs"], tensors["alphabets"], tensors["characters"], tuple(json.loads(note))
    )


def _read_all(folders: list[list[Path]]) -> dict[str, Tensor]:
    rows = [
        (path, alphabet, character)
        for alphabet, characters in enumerate(folders)
        for character, folder in enumerate(characters)
        for path in picture_files(folder)
    ]
    ink = np.stack([read_picture(path, side=_DRAWN) < 128 for path, _, _ in rows])
    return {
        "inputs": torch.from_numpy(shrink(ink)),
        "alphabets": torch.tensor([alphabet for _, alphabet, _ in rows]),
        "characters": torch.tensor([character for _, _, character in rows]),
    }


def shrink(ink: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(drawings, 105, 105) ink or paper -> (drawings, 28, 28), 255 times the share of ink.

    A small pixel covers 3.75 x 3.75 large ones, counted in whole quarters, so the result is the
    same on every machine.
    """
    quarters = np.repeat(np.eye(SIDE, dtype=np.int32), 15, axis=1)  # (28, 420): 105 x 4
    weights = quarters.reshape(SIDE, _DRAWN, 4).sum(
        2
    )  # (28, 105): quarters covered, rows add to 15
    small = np.empty((len(ink), SIDE, SIDE), dtype=np.uint8)
    for start in range(0, len(ink), 1024):  # a share at a time: int32 is four times the bytes
        part = ink[start : start + 1024].astype(np.float32)  # floats hold these integers exactly
        covered = np.rint(weights.astype(np.float32) @ part @ weights.T.astype(np.float32))
        small[start : start + 1024] = (covered.astype(np.int32) * 255 + 112) // 225
    return small
