"""What data sets there are, by name: their files, checksums and mirrors.

The checksums are those the authors publish, or, where they publish none, those that the archives
are known by. Nothing here touches a disk or a network.
"""

from __future__ import annotations

from uclearn.errors import DataError, no_such
from uclearn.tasks.sources import published_idx, published_pictures
from uclearn.tasks.sources.dataset import DataSet

CATALOGUE: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        published_idx.MNIST,
        published_idx.FASHION,
        published_idx.KUZUSHIJI,
        published_pictures.CIFAR10,
        published_pictures.CIFAR100,
        published_pictures.NOTMNIST_SMALL,
        published_pictures.NOTMNIST_LARGE,
        published_pictures.OMNIGLOT,
    )
}


def dataset(name: str) -> DataSet:
    """The data set called `name`."""
    if name not in CATALOGUE:
        raise DataError(no_such("data set", name, CATALOGUE))
    return CATALOGUE[name]
