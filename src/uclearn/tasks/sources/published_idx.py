"""MNIST and its drop-in kin as they are published."""

from __future__ import annotations

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
