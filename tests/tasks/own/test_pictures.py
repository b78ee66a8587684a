"""Folders of pictures, of every size and in every state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tasks.sources.published import png_claiming
from uclearn.errors import DataError, UclearnError
from uclearn.tasks.own.pictures import read_pictures
from uclearn.tasks.own.source import own_data

RED, BLUE = (200, 0, 0), (0, 0, 200)


def paint(path: Path, colour: tuple[int, ...] | int, size: tuple[int, int] = (10, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB" if isinstance(colour, tuple) else "L", size, colour).save(path)
    return path


def gallery(folder: Path, *tops: str, each: int = 4) -> Path:
    """Red and blue pictures, below each of the `tops`."""
    for top in tops or ("",):
        for name, colour in (("red", RED), ("blue", BLUE)):
            for number in range(each):
                paint(folder / top / name / f"{number}.png", colour)
    return folder


def test_tasks_of_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    made = own_data(gallery(tmp_path / "pics", "10", "9"))
    tasks = made.build(0, None, 2)
    assert [task.name for task in tasks] == ["9", "10"]
    assert (made.input_shape, made.classes, made.heads) == ((3, 10, 10), (2, 2), False)
    batch = tasks[1].train.batch(torch.arange(len(tasks[1].train)))
    red = batch.inputs[:, 0].mean((1, 2)) > batch.inputs[:, 2].mean((1, 2))
    assert torch.equal(red, batch.targets == 1)  # blue, red


def test_tasks_in_the_order_of_a_file(tmp_path: Path) -> None:
    folder = gallery(tmp_path / "pics", "a", "b", "c")
    (folder / "tasks.txt").write_text("c\na\n\nb\n")
    assert [task.name for task in own_data(folder).build(0, None, 3)] == ["c", "a", "b"]


def test_any_size_and_aspect_is_scaled_and_the_middle_kept(tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), dtype=np.uint8)
    wide[:, 20:40] = 250  # the middle square is white
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(wide).save(tmp_path / name / "1.png")
        Image.fromarray(wide.transpose(1, 0, 2)).save(tmp_path / name / "2.webp", lossless=True)
        paint(tmp_path / name / "3.jpg", RED, (7, 5))
    read = read_pictures(tmp_path, 8, grey=False, skip_broken=False)
    assert read.inputs.shape == (6, 3, 8, 8)
    assert bool((read.inputs[:2] == 250).all())
    assert read_pictures(tmp_path, None, False, False).inputs.shape[2:] == (32, 32)


def test_grey_pictures_have_one_channel_and_all_can_be_made_grey(tmp_path: Path) -> None:
    for name, shade in (("dark", 10), ("light", 200)):
        paint(tmp_path / "grey" / name / "1.png", shade)
        paint(tmp_path / "colour" / name / "1.png", (shade, 0, 0))
    assert read_pictures(tmp_path / "grey", None, False, False).inputs.shape[1] == 1
    assert read_pictures(tmp_path / "colour", None, False, False).inputs.shape[1] == 3
    assert read_pictures(tmp_path / "colour", None, True, False).inputs.shape[1] == 1


def test_broken_pictures_are_named_counted_and_left_out_only_if_asked(tmp_path: Path) -> None:
    folder = gallery(tmp_path / "pics", each=5)
    whole = (folder / "red" / "0.png").read_bytes()
    (folder / "red" / "1.png").write_bytes(whole[: len(whole) // 2])
    (folder / "blue" / "2.png").write_bytes(b"no picture at all")
    with pytest.raises(DataError) as error:
        own_data(folder, permute=2)
    text = str(error.value)
    for word in ("blue/2.png", "red/1.png", "2 of the 10", "--skip-broken"):
        assert word in text
    made = own_data(folder, permute=2, skip_broken=True)
    assert made.source is not None
    assert made.source.skipped == ("blue/2.png", "red/1.png")
    task = made.build(0, None, 1)[0]
    assert task.test is not None
    assert len(task.train) + len(task.test) == 8


def _empty_class(folder: Path) -> None:
    (folder / "green").mkdir()


def _two_formats(folder: Path) -> None:
    paint(folder / "red" / "1.jpg", RED)


def _mixed(folder: Path) -> None:
    paint(folder / "task" / "red" / "1.png", RED)


def _lonely(folder: Path) -> None:
    paint(folder / "green" / "1.png", (0, 200, 0))


def _bomb(folder: Path) -> None:
    (folder / "red" / "9.png").write_bytes(png_claiming(100_000, 100_000))


def _deep(folder: Path) -> None:
    sixteen = np.full((10, 10), 40_000, dtype=np.uint16)
    Image.fromarray(sixteen).save(folder / "red" / "9.png")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_empty_class, ["pics/green", "expected at least one picture", "Remove the folder"]),
        (_two_formats, ["pics/red", "two files of one name", "1.jpg and 1.png"]),
        (_mixed, ["blue holds pictures and task holds folders"]),
        (_lonely, ["class 'green'", "has 1 example", "Add examples"]),
        (_bomb, ["red/9.png", "pixels", "nothing was decoded"]),
        (_deep, ["red/9.png", "more than 8 bits"]),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_line(
    tmp_path: Path, spoil: object, words: list[str]
) -> None:
    folder = gallery(tmp_path / "pics")
    spoil(folder)  # type: ignore[operator]
    with pytest.raises(UclearnError) as error:
        own_data(folder, permute=2)
    for word in words:
        assert word in str(error.value), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("order", "word"),
    [("a\nx\n", "line 2"), ("a\n", "not the folder 'b'"), ("a\nb\na\n", "named twice")],
)
def test_an_order_that_does_not_fit(tmp_path: Path, order: str, word: str) -> None:
    folder = gallery(tmp_path / "pics", "a", "b")
    (folder / "tasks.txt").write_text(order)
    with pytest.raises(DataError, match=word):
        own_data(folder)


def test_options_of_tables_mean_nothing_for_pictures(tmp_path: Path) -> None:
    with pytest.raises(UclearnError, match=r"`--label` says nothing about .*pics \(pictures\)"):
        own_data(gallery(tmp_path / "pics"), permute=2, label="kind")
