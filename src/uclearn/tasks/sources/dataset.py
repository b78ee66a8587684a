"""How a data set is described: the files its loader reads, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """One form in which a file may lie in the data folder; `md5` None: no checksum is known."""

    path: str
    md5: str | None = None


@dataclass(frozen=True)
class File:
    """A file, or a folder of pictures, that a data set needs: the first version found is used."""

    role: str
    versions: tuple[Version, ...]


@dataclass(frozen=True)
class Download:
    """A published file: `mirrors` are the addresses to try in turn, `into` is the place below the
    data folder where it goes, or where it is unpacked to (`unpack`)."""

    name: str
    md5: str
    size: int | None
    mirrors: tuple[str, ...]
    into: str
    unpack: bool = False


@dataclass(frozen=True)
class DataSet:
    """A data set: what its loader reads, and where that comes from.

    `content` is the SHA-256 of all pictures of a folder, decoded, in order: PNG files that hold the
    same pixels are the same data, however they are compressed.
    """

    name: str
    title: str
    home: str
    files: tuple[File, ...]
    downloads: tuple[Download, ...]
    content: str | None = None
