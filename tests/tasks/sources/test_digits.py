"""The embedded digits are the published ones, whole and in order."""

import hashlib

import torch

from uclearn.tasks.sources import digits

# "No of examples in testing set", on the data set's page in the UCI repository.
PUBLISHED_COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_shapes_types_and_range() -> None:
    images, labels = digits.load()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == torch.uint8
    assert (int(images.min()), int(images.max())) == (0, 16)
    assert labels.shape == (1797,)
    assert labels.dtype == torch.int64


def test_each_digit_occurs_as_often_as_published() -> None:
    _, labels = digits.load()
    assert torch.bincount(labels).tolist() == PUBLISHED_COUNTS


def test_every_value_is_as_published() -> None:
    """Written out again as the published text, the tensors give its SHA-256 (data/README.md)."""
    images, labels = digits.load()
    table = torch.cat([images.reshape(1797, 64).long(), labels[:, None]], dim=1)
    text = "".join(",".join(map(str, row)) + "\n" for row in table.tolist())
    published = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
    assert hashlib.sha256(text.encode()).hexdigest() == published


def test_the_pictures_stand_upright() -> None:
    """The first picture is a zero: dark in the middle, bright on the rim, in reading order."""
    images, _ = digits.load()
    assert images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert images[0, 3:5, 3:5].sum() == 0
