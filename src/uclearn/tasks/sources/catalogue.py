"""What data sets there are, by name: their files, checksums and mirrors, as they are published.

The checksums are those the authors publish, or, where they publish none, those that the archives
are known by. Nothing here touches a disk or a network.
"""

from __future__ import annotations

from uclearn.errors import DataError, no_such
from uclearn.tasks.sources.dataset import DataSet, Download, File, Version


def _idx_set(
    name: str,
    title: str,
    home: str,
    folders: tuple[str, str],
    sums: tuple[tuple[str, int | None, str, str | None], ...],
    mirrors: tuple[str, ...],
) -> DataSet:
    """A set of four idx files; `sums`: name, size and md5 compressed, md5 uncompressed."""
    files, downloads = [], []
    for stem, size, packed, raw in sums:
        dotted = stem.replace("-idx", ".idx")  # some unpackers name them so
        names = ((f"{stem}.gz", packed), (stem, raw), (dotted, raw))
        versions = tuple(Version(f"{folder}/{n}", md5) for folder in folders for n, md5 in names)
        files.append(File(stem, versions))
        urls = tuple(f"{mirror}{stem}.gz" for mirror in mirrors)
        downloads.append(Download(f"{stem}.gz", packed, size, urls, folders[0]))
    return DataSet(name, title, home, tuple(files), tuple(downloads))


MNIST = _idx_set(
    "mnist",
    "MNIST: 70,000 handwritten digits, 28x28",
    "http://yann.lecun.com/exdb/mnist/",
    ("mnist", "MNIST/raw"),
    (
        (
            "train-images-idx3-ubyte",
            9912422,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
        (
            "train-labels-idx1-ubyte",
            28881,
            "d53e105ee54ea40749a09fcbcd1e9432",
            "a25bea736e30d166cdddb491f175f624",
        ),
        (
            "t10k-images-idx3-ubyte",
            1648877,
            "9fb629c4189551a2d022fa330f9573f3",
            "2646ac647ad5339dbf082846283269ea",
        ),
        (
            "t10k-labels-idx1-ubyte",
            4542,
            "ec29112dd5afa0611ce80d1b7f02629c",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)

FASHION = _idx_set(
    "fashion-mnist",
    "Fashion-MNIST: 70,000 pieces of clothing, 28x28",
    "https://github.com/zalandoresearch/fashion-mnist",
    ("fashion-mnist", "FashionMNIST/raw"),
    (
        ("train-images-idx3-ubyte", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
        ("train-labels-idx1-ubyte", 29515, "25c81989df183df01b3e8a0aad5dffbe", None),
        ("t10k-images-idx3-ubyte", 4422102, "bef4ecab320f06d8554ea6380940ec79", None),
        ("t10k-labels-idx1-ubyte", 5148, "bb300cfdad3c16e7a12a480ee83cd310", None),
    ),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
)

KUZUSHIJI = _idx_set(
    "kmnist",
    "KMNIST: 70,000 cursive Japanese characters, 28x28",
    "https://codh.rois.ac.jp/kmnist/",
    ("kmnist", "KMNIST/raw"),
    (
        ("train-images-idx3-ubyte", 18165135, "bdb82020997e1d708af4cf47b453dcf7", None),
        ("train-labels-idx1-ubyte", None, "e144d726b3acfaa3e44228e80efcd344", None),
        ("t10k-images-idx3-ubyte", None, "5c965bf0a639b31b8f53240b1b52f4d7", None),
        ("t10k-labels-idx1-ubyte", None, "7320c461ea6c1c855c0b718fb2a4b134", None),
    ),
    (
        "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
    ),
)


_TORONTO = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")


def _cifar10_file(stem: str, binary: str, pickled: str) -> File:
    return File(
        stem,
        (
            Version(f"cifar-10-batches-bin/{stem}.bin", binary),
            Version(f"cifar-10-batches-py/{stem}", pickled),
        ),
    )


CIFAR10 = DataSet(
    "cifar10",
    "CIFAR-10: 60,000 colour photographs of 10 classes, 32x32",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    tuple(
        _cifar10_file(*row)
        for row in (
            (
                "data_batch_1",
                "5dd7e06a14cb22eb9f671a540d1b7c25",
                "c99cafc152244af753f735de768cd75f",
            ),
            (
                "data_batch_2",
                "5ea93a67294ea407fff1d09f752e9692",
                "d4bba439e000b95fd0a9bffe97cbabec",
            ),
            (
                "data_batch_3",
                "942cd6a4bcdd0dd3c604fbe906cb4421",
                "54ebc095f3ab1f0389bbae665268c751",
            ),
            (
                "data_batch_4",
                "ae636b3ba5c66a11e91e8cb52e771fcb",
                "634d18415352ddfa80567beed471001a",
            ),
            (
                "data_batch_5",
                "53f37980c15c3d472c316c40844f3f0d",
                "482c414d41f54cd18b22e5b47cb7c3cb",
            ),
            ("test_batch", "803d5f7f4d78ea53de84dbe85f74fb6d", "40351d587109b95175f43aff81a1287e"),
        )
    ),
    (
        Download(
            "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
            tuple(f"{mirror}cifar-10-binary.tar.gz" for mirror in _TORONTO),
            into="",
            unpack=True,
        ),
    ),
)

CIFAR100 = DataSet(
    "cifar100",
    "CIFAR-100: 60,000 colour photographs of 100 classes, 32x32",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    (
        File("train", (Version("cifar-100-python/train", "16019d7e3df5f24257cddd939b257f8d"),)),
        File("test", (Version("cifar-100-python/test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),)),
        File("meta", (Version("cifar-100-python/meta", "7973b15100ade9c7d40fb424638fde48"),)),
    ),
    (
        Download(
            "cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            169_001_437,
            tuple(f"{mirror}cifar-100-python.tar.gz" for mirror in _TORONTO),
            into="",
            unpack=True,
        ),
    ),
)


def _notmnist(size: str, title: str, md5: str, length: int, content: str | None) -> DataSet:
    archive = f"notMNIST_{size}.tar.gz"
    bases = (
        "http://yaroslavvb.com/upload/notMNIST/",
        "https://commondatastorage.googleapis.com/books1000/",
    )
    return DataSet(
        f"notmnist-{size}",
        title,
        "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
        (File("letters", (Version(f"notMNIST_{size}"),)),),
        (Download(archive, md5, length, tuple(f"{b}{archive}" for b in bases), "", unpack=True),),
        content,
    )


NOTMNIST_SMALL = _notmnist(
    "small",
    "notMNIST small: 18,724 letters A to J from fonts, 28x28",
    "c9890a473a9769fda4bdf314aaf500dd",
    8_458_043,
    "345230c68b01626f9bc14dbdd0da5564504eb91c194f81f49d86b3a38ecf57dc",
)
NOTMNIST_LARGE = _notmnist(
    "large",
    "notMNIST large: 529,114 letters A to J from fonts, 28x28",
    "70a95b805ecfb6592c48e196df7c1499",
    247_336_696,
    None,
)

_OMNIGLOT_HOME = "https://github.com/brendenlake/omniglot"
_OMNIGLOT_SUMS = {
    "images_background": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811",
}
OMNIGLOT = DataSet(
    "omniglot",
    "Omniglot: 32,460 drawings of 1,623 characters from 50 alphabets, 105x105",
    _OMNIGLOT_HOME,
    tuple(
        File(
            part, tuple(Version(f"{folder}{part}") for folder in ("omniglot/", "omniglot-py/", ""))
        )
        for part in _OMNIGLOT_SUMS
    ),
    tuple(
        Download(
            f"{part}.zip",
            md5,
            None,
            (
                f"{_OMNIGLOT_HOME}/raw/master/python/{part}.zip",
                f"https://raw.githubusercontent.com/brendenlake/omniglot/master/python/{part}.zip",
            ),
            into="omniglot",
            unpack=True,
        )
        for part, md5 in _OMNIGLOT_SUMS.items()
    ),
    "32d7fbb5b54cbc98e1df706c24e7eaec49e280094c5d6d93b5493d5227aa24bc",
)


CATALOGUE: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        MNIST,
        FASHION,
        KUZUSHIJI,
        CIFAR10,
        CIFAR100,
        NOTMNIST_SMALL,
        NOTMNIST_LARGE,
        OMNIGLOT,
    )
}


def dataset(name: str) -> DataSet:
    """The data set called `name`."""
    if name not in CATALOGUE:
        raise DataError(no_such("data set", name, CATALOGUE))
    return CATALOGUE[name]
