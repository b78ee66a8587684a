"""What data sets there are, by name: their files, checksums and mirrors, as they are published.

The checksums are those the authors publish, or, where they publish none, those that the archives
are known by. Nothing here touches a disk or a network.
"""

from __future__ import annotations

from uclearn.choices import no_such
from uclearn.errors import DataError
from uclearn.tasks.sources.dataset import DataSet, Download, File, Version

_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_set(
    name: str,
    title: str,
    home: str,
    torch_folder: str,
    sums: tuple[tuple[int | None, str, str | None], ...],
    mirrors: tuple[str, ...],
) -> DataSet:
    """A set of four idx files; `sums`: size and md5 compressed, md5 uncompressed."""
    folders = (name, f"{torch_folder}/raw")
    files, downloads = [], []
    for stem, (size, packed, raw) in zip(_IDX_FILES, sums, strict=True):
        dotted = stem.replace("-idx", ".idx")  # some unpackers name them so
        names = ((f"{stem}.gz", packed), (stem, raw), (dotted, raw))
        versions = tuple(Version(f"{folder}/{n}", md5) for folder in folders for n, md5 in names)
        files.append(File(stem, versions))
        urls = tuple(f"{mirror}{stem}.gz" for mirror in mirrors)
        downloads.append(Download(f"{stem}.gz", packed, size, urls, name))
    return DataSet(name, title, home, tuple(files), tuple(downloads))


def _archive(
    name: str, md5: str, size: int | None, mirrors: tuple[str, ...], into: str = ""
) -> Download:
    urls = tuple(f"{mirror}{name}" for mirror in mirrors)
    return Download(name, md5, size, urls, into, unpack=True)


def _cifar(
    name: str, title: str, files: tuple[File, ...], archive: str, md5: str, size: int
) -> DataSet:
    mirrors = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
    downloads = (_archive(archive, md5, size, mirrors),)
    return DataSet(name, title, f"{mirrors[0]}cifar.html", files, downloads)


_CIFAR10_SUMS = {
    "data_batch_1": ("5dd7e06a14cb22eb9f671a540d1b7c25", "c99cafc152244af753f735de768cd75f"),
    "data_batch_2": ("5ea93a67294ea407fff1d09f752e9692", "d4bba439e000b95fd0a9bffe97cbabec"),
    "data_batch_3": ("942cd6a4bcdd0dd3c604fbe906cb4421", "54ebc095f3ab1f0389bbae665268c751"),
    "data_batch_4": ("ae636b3ba5c66a11e91e8cb52e771fcb", "634d18415352ddfa80567beed471001a"),
    "data_batch_5": ("53f37980c15c3d472c316c40844f3f0d", "482c414d41f54cd18b22e5b47cb7c3cb"),
    "test_batch": ("803d5f7f4d78ea53de84dbe85f74fb6d", "40351d587109b95175f43aff81a1287e"),
}


def _cifar10_file(stem: str, binary: str, pickled: str) -> File:
    in_binary = Version(f"cifar-10-batches-bin/{stem}.bin", binary)
    return File(stem, (in_binary, Version(f"cifar-10-batches-py/{stem}", pickled)))


def _notmnist(size: str, title: str, md5: str, length: int, content: str | None) -> DataSet:
    mirrors = (
        "http://yaroslavvb.com/upload/notMNIST/",
        "https://commondatastorage.googleapis.com/books1000/",
    )
    return DataSet(
        f"notmnist-{size}",
        title,
        "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
        (File("letters", (Version(f"notMNIST_{size}"),)),),
        (_archive(f"notMNIST_{size}.tar.gz", md5, length, mirrors),),
        content,
    )


_OMNIGLOT_MIRRORS = (
    "https://github.com/brendenlake/omniglot/raw/master/python/",
    "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/",
)
_OMNIGLOT_SUMS = {
    "images_background": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811",
}

_ALL = (
    _idx_set(
        "mnist",
        "MNIST: 70,000 handwritten digits, 28x28",
        "http://yann.lecun.com/exdb/mnist/",
        "MNIST",
        (
            (9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
            (28881, "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
            (1648877, "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
            (4542, "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
        ),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
    _idx_set(
        "fashion-mnist",
        "Fashion-MNIST: 70,000 pieces of clothing, 28x28",
        "https://github.com/zalandoresearch/fashion-mnist",
        "FashionMNIST",
        (
            (26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
            (29515, "25c81989df183df01b3e8a0aad5dffbe", None),
            (4422102, "bef4ecab320f06d8554ea6380940ec79", None),
            (5148, "bb300cfdad3c16e7a12a480ee83cd310", None),
        ),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
    ),
    _idx_set(
        "kmnist",
        "KMNIST: 70,000 cursive Japanese characters, 28x28",
        "https://codh.rois.ac.jp/kmnist/",
        "KMNIST",
        (
            (18165135, "bdb82020997e1d708af4cf47b453dcf7", None),
            (None, "e144d726b3acfaa3e44228e80efcd344", None),
            (None, "5c965bf0a639b31b8f53240b1b52f4d7", None),
            (None, "7320c461ea6c1c855c0b718fb2a4b134", None),
        ),
        (
            "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        ),
    ),
    _cifar(
        "cifar10",
        "CIFAR-10: 60,000 colour photographs of 10 classes, 32x32",
        tuple(_cifar10_file(stem, *sums) for stem, sums in _CIFAR10_SUMS.items()),
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        170_052_171,
    ),
    _cifar(
        "cifar100",
        "CIFAR-100: 60,000 colour photographs of 100 classes, 32x32",
        (
            File("train", (Version("cifar-100-python/train", "16019d7e3df5f24257cddd939b257f8d"),)),
            File("test", (Version("cifar-100-python/test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),)),
            File("meta", (Version("cifar-100-python/meta", "7973b15100ade9c7d40fb424638fde48"),)),
        ),
        "cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        169_001_437,
    ),
    _notmnist(
        "small",
        "notMNIST small: 18,724 letters A to J from fonts, 28x28",
        "c9890a473a9769fda4bdf314aaf500dd",
        8_458_043,
        "345230c68b01626f9bc14dbdd0da5564504eb91c194f81f49d86b3a38ecf57dc",
    ),
    _notmnist(
        "large",
        "notMNIST large: 529,114 letters A to J from fonts, 28x28",
        "70a95b805ecfb6592c48e196df7c1499",
        247_336_696,
        None,
    ),
    DataSet(
        "omniglot",
        "Omniglot: 32,460 drawings of 1,623 characters from 50 alphabets, 105x105",
        "https://github.com/brendenlake/omniglot",
        tuple(
            File(
                part,
                tuple(Version(f"{above}{part}") for above in ("omniglot/", "omniglot-py/", "")),
            )
            for part in _OMNIGLOT_SUMS
        ),
        tuple(
            _archive(f"{part}.zip", md5, None, _OMNIGLOT_MIRRORS, into="omniglot")
            for part, md5 in _OMNIGLOT_SUMS.items()
        ),
        "32d7fbb5b54cbc98e1df706c24e7eaec49e280094c5d6d93b5493d5227aa24bc",
    ),
)

CATALOGUE: dict[str, DataSet] = {entry.name: entry for entry in _ALL}


def dataset(name: str) -> DataSet:
    """The data set called `name`."""
    if name not in CATALOGUE:
        raise DataError(no_such("data set", name, CATALOGUE))
    return CATALOGUE[name]
