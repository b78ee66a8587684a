"""Small files in the published formats, written byte by byte from their descriptions."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def idx(values: Bytes) -> bytes:
    """The idx format: magic number, big-endian sizes, values."""
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return bytes((0, 0, 8, values.ndim)) + sizes + values.tobytes()


def pictures_and_labels(count: int, side: int = 28, seed: int = 0) -> tuple[Bytes, Bytes]:
    draw = np.random.default_rng(seed)
    pictures = draw.integers(0, 256, (count, side, side), dtype=np.uint8)
    return pictures, draw.integers(0, 10, count, dtype=np.uint8)


def write_mnist(folder: Path, packed: bool = True, side: int = 28) -> dict[str, Bytes]:
    """The four files of MNIST with 5 and 3 examples."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for prefix, count in (("train", 5), ("t10k", 3)):
        pictures, labels = pictures_and_labels(count, side, count)
        for stem, values in (
            (f"{prefix}-images-idx3", pictures),
            (f"{prefix}-labels-idx1", labels),
        ):
            content = idx(values)
            name = f"{stem}-ubyte.gz" if packed else f"{stem}-ubyte"
            (folder / name).write_bytes(gzip.compress(content) if packed else content)
            written[stem] = values
    return written


def cifar_pickle(
    pixels: Bytes,
    labels: list[int],
    key: str = "labels",
    module: str = "numpy.core.multiarray",
    kind: str = "u1",
) -> bytes:
    """A batch of CIFAR's python version, opcode by opcode as Python 2 and NumPy wrote it."""

    def text(value: str) -> bytes:
        return b"U" + bytes((len(value),)) + value.encode()  # SHORT_BINSTRING

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)  # BININT

    content = pixels.tobytes()
    reconstruct = f"c{module}\n_reconstruct\ncnumpy\nndarray\n".encode()
    array = (
        reconstruct + b"K\x00\x85" + text("b") + b"\x87R"  # _reconstruct(ndarray, (0,), "b")
        b"(K\x01" + b"".join(map(number, pixels.shape)) + b"\x86"  # its state: version, shape,
        b"cnumpy\ndtype\n" + text(kind) + b"K\x00K\x01\x87R"  # type,
        b"(K\x03" + text("|") + b"NNN" + number(-1) * 2 + b"K\x00tb"
        b"\x89"  # row order,
        b"T" + struct.pack("<i", len(content)) + content + b"tb"  # and content
    )
    entries = text("data") + array + text(key) + b"](" + b"".join(map(number, labels)) + b"e"
    return b"\x80\x02}(" + entries + b"u."


def cifar_names(names: list[str]) -> bytes:
    """CIFAR-100's `meta`."""
    listed = b"".join(b"U" + bytes((len(n),)) + n.encode() for n in names)
    return b"\x80\x02}(U\x10fine_label_names](" + listed + b"eu."


def png_claiming(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header claims any size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
