"""A folder of pictures of any size: `TASK/CLASS/*.png`, or `CLASS/*.png`.

All are scaled and cropped to one square size and read once. Every header is looked at before the
first pixel is decoded, and whatever cannot be read is named and counted, before anything is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.own.examples import Examples, check_memory, in_order, numbered
from uclearn.tasks.sources.folder import MOST_PIXELS

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
_ORDER = "tasks.txt"
_LARGEST, _USUAL = 64, 32
"""Pictures of one size keep it up to the first; others get the second, in pixels."""


Shape = tuple[tuple[int, int], str]
"""Size and mode of a picture."""


class Picture(NamedTuple):
    """A file, and what it is of."""

    path: Path
    label: str
    task: str | None


def picture_files(path: Path) -> list[Path]:
    """All files that count."""
    order = path / _ORDER
    return [picture.path for picture in found_in(path)] + ([order] if order.exists() else [])


def read_pictures(path: Path, size: int | None, grey: bool, skip_broken: bool) -> Examples:
    """The pictures below `path`, scaled to `size` by `size` (None: their own size if it is one and
    small, else 32), in colour unless all are grey."""
    pictures = found_in(path)
    shapes, broken = _look(pictures)
    whole = [picture for picture in pictures if picture.path not in broken]
    side = size or _side(shapes.values())
    channels = 1 if grey or _all_grey(shapes.values()) else 3
    needed = 2.0 * len(whole) * channels * side * side
    check_memory(path, needed, f"Say `--size {max(side // 2, 8)}`, or keep fewer pictures.")
    stack = np.empty((len(whole), channels, side, side), dtype=np.uint8)
    for place, picture in enumerate(whole):
        try:
            stack[place] = decoded(picture.path, side, channels)
        except (OSError, SyntaxError, EOFError, ValueError) as error:
            broken[picture.path] = str(error)
    if broken and not skip_broken:
        raise DataError(_complaint(path, broken, len(pictures)))
    kept = [place for place, picture in enumerate(whole) if picture.path not in broken]
    if not kept:
        raise DataError(f"{path}: none of the {len(pictures)} pictures can be read.")
    return _as_examples(path, [whole[place] for place in kept], stack[kept], broken)


def loose_pictures(path: Path, size: int | None, grey: bool) -> Tensor:
    """(pictures, channels, side, side) of those that lie in `path` itself or in folders below it,
    by name; whatever they are of."""
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not files:
        raise DataError(f"{path}: expected pictures ({', '.join(SUFFIXES)}), found none.")
    shapes, broken = _look([Picture(file, "", None) for file in files])
    if broken:
        raise DataError(_complaint(path, broken, len(files)))
    side = size or _side(shapes.values())
    channels = 1 if grey or _all_grey(shapes.values()) else 3
    needed = 2.0 * len(files) * channels * side * side
    check_memory(path, needed, "Ask for fewer pictures at a time.")
    return torch.from_numpy(np.stack([decoded(file, side, channels) for file in files]).copy())


def found_in(path: Path) -> list[Picture]:
    """All pictures by task, class and name; a folder that is neither is refused."""
    tops = _folders(path)
    flat = [top for top in tops if _pictures_in(top)]
    deep = [top for top in tops if _folders(top)]
    if not flat and not deep:
        raise DataError(
            f"{path}: expected folders of pictures ({', '.join(SUFFIXES)}), one for each class, or "
            "one for each task with one for each class in it; found none."
        )
    if flat and deep:
        raise DataError(
            f"{path}: {flat[0].name} holds pictures and {deep[0].name} holds folders. Either all "
            "are classes (CLASS/*.png) or all are tasks (TASK/CLASS/*.png)."
        )
    if flat:
        return [each for top in tops for each in _of_class(top, None)]
    return [each for task in _in_order(path, tops) for each in _of_task(task)]


def _of_task(task: Path) -> Iterator[Picture]:
    classes = _folders(task)
    if not classes:
        raise DataError(f"{task}: expected a folder for each class of the task, found none.")
    for each in classes:
        yield from _of_class(each, task.name)


def _of_class(folder: Path, task: str | None) -> list[Picture]:
    files = _pictures_in(folder)
    if not files:
        raise DataError(
            f"{folder}: expected at least one picture ({', '.join(SUFFIXES)}), found none. Remove "
            "the folder if it is no class."
        )
    twice = [stem for stem, count in Counter(file.stem for file in files).items() if count > 1]
    if twice:
        names = " and ".join(file.name for file in files if file.stem == twice[0])
        raise DataError(
            f"{folder}: has two files of one name, {names}. One picture in two formats could stand "
            "in the training and in the test data: remove or rename one."
        )
    return [Picture(file, folder.name, task) for file in files]


def _in_order(path: Path, tasks: Sequence[Path]) -> list[Path]:
    """By name, or as tasks.txt says."""
    order, known = path / _ORDER, {task.name: task for task in tasks}
    if not order.exists():
        return [known[name] for name in in_order(known)]
    names = [line.strip() for line in order.read_text(encoding="utf-8").splitlines()]
    names = [name for name in names if name]
    for line, name in enumerate(names, start=1):
        if name not in known or names.count(name) > 1:
            wrong = "no such folder" if name not in known else "it is named twice"
            raise DataError(f"{order}, line {line}: expected a task, found {name!r}; {wrong}.")
    if absent := sorted(known.keys() - set(names)):
        raise DataError(
            f"{order}: names {len(names)} tasks but not the folder {absent[0]!r}. Add it where it "
            "belongs, or move the folder away."
        )
    return [known[name] for name in names]


def _look(pictures: Sequence[Picture]) -> tuple[dict[Path, Shape], dict[Path, str]]:
    """Of each picture its size and mode, from its header; and what is wrong with those that have
    none."""
    shapes, broken = {}, {}
    for picture in pictures:
        try:
            shapes[picture.path] = _shape(picture.path, str(picture.path))
        except (OSError, SyntaxError, EOFError) as error:
            broken[picture.path] = str(error)
    return shapes, broken


def _shape(file: Path | BinaryIO, where: str) -> Shape:
    """Size and mode of a picture, from its header; one that would fill the memory is refused."""
    try:
        with Image.open(file, formats=_FORMATS) as image:
            size, mode = image.size, image.mode
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        size, mode = (MOST_PIXELS, MOST_PIXELS), str(error)
    if size[0] * size[1] > MOST_PIXELS:
        raise DataError(
            f"{where}: expected at most {MOST_PIXELS} pixels, found far more. It is too large or "
            "meant to harm; nothing was decoded."
        )
    if mode.startswith(("I", "F")):
        raise OSError(f"mode {mode}: more than 8 bits per pixel")
    return size, mode


def side_of(
    files: Sequence[BinaryIO], size: int | None, grey: bool, where: str
) -> tuple[int, bool]:
    """To what pictures in memory are scaled, and whether they are grey."""
    shapes = [_shape(file, f"{where}, row {place}") for place, file in enumerate(files)]
    return size or _side(shapes), grey or _all_grey(shapes)


def _all_grey(shapes: Iterable[Shape]) -> bool:
    return all(mode in ("1", "L") for _, mode in shapes)


def _side(shapes: Iterable[Shape]) -> int:
    sizes = {size for size, _ in shapes}
    width, height = sizes.pop() if len(sizes) == 1 else (0, -1)
    return width if width == height and width <= _LARGEST else _USUAL


def decoded(file: Path | BinaryIO, side: int, channels: int) -> NDArray[np.uint8]:
    """(channels, side, side): the shorter side scaled, the middle of the longer one kept."""
    with Image.open(file, formats=_FORMATS) as image:
        upright = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
        if upright.size != (side, side):
            upright = ImageOps.fit(upright, (side, side), Image.Resampling.BOX)
        pixels = np.asarray(upright)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _complaint(path: Path, broken: dict[Path, str], count: int) -> str:
    first, why = next(iter(sorted(broken.items())))
    others = ", ".join(str(each.relative_to(path)) for each in sorted(broken)[1:4])
    also = f" Also {others}{', ...' if len(broken) > 4 else ''}." if others else ""
    why = why.replace(f" {str(first)!r}", "")
    return (
        f"{first}: cannot be read ({why}); {len(broken)} of the {count} pictures in {path} cannot."
        f"{also} Replace them, or leave them out by `--skip-broken`."
    )


def _as_examples(
    path: Path,
    pictures: Sequence[Picture],
    stack: NDArray[np.uint8],
    broken: dict[Path, str],
) -> Examples:
    labels = [picture.label for picture in pictures]
    classes = in_order(labels)
    names = tuple(dict.fromkeys(picture.task for picture in pictures if picture.task is not None))
    told = [picture.task or "" for picture in pictures]
    return Examples(
        torch.from_numpy(stack),
        numbered(labels, classes),
        classes,
        tasks=numbered(told, names) if names else None,
        task_names=names,
        skipped=tuple(str(each.relative_to(path)) for each in sorted(broken)),
    )


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _pictures_in(folder: Path) -> list[Path]:
    return sorted(
        p
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
    )
