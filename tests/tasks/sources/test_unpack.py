from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from uclearn.errors import DataError
from uclearn.tasks.sources import unpack as module
from uclearn.tasks.sources.unpack import unpack


def tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for member in members:
            file.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def regular(name: str, size: int = 3) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def packed(path: Path, name: str, mode: int = stat.S_IFREG) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (mode | 0o644) << 16
        file.writestr(entry, b"abc")
    return path


def test_tar_and_zip_are_unpacked(tmp_path: Path) -> None:
    unpack(tar(tmp_path / "a.tar.gz", regular("one/x"), regular("top")), tmp_path / "out")
    unpack(packed(tmp_path / "b.zip", "two/y"), tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*"))
    assert found == ["one", "one/x", "top", "two", "two/y"]


def test_what_was_there_under_the_same_name_is_replaced(tmp_path: Path) -> None:
    old = tmp_path / "out" / "one"
    old.mkdir(parents=True)
    (old / "stale").touch()
    unpack(tar(tmp_path / "a.tar.gz", regular("one/x")), tmp_path / "out")
    assert [p.name for p in old.iterdir()] == ["x"]


@pytest.mark.parametrize(
    "name", ["../escape", "/escape", "a/../../escape", "C:\\escape", "..\\escape"]
)
def test_names_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    for archive in (tar(tmp_path / "a.tar.gz", regular(name)), packed(tmp_path / "a.zip", name)):
        with pytest.raises(
            DataError, match=r"names inside the archive's own folder, found .*escape"
        ):
            unpack(archive, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []


def test_links_are_refused(tmp_path: Path) -> None:
    for archive in (
        tar(tmp_path / "a.tar.gz", link("way", "/etc"), regular("way/passwd")),
        packed(tmp_path / "a.zip", "way", stat.S_IFLNK),
    ):
        with pytest.raises(DataError, match="expected files and folders only, found way"):
            unpack(archive, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []


def test_a_bomb_is_refused_before_it_goes_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    with pytest.raises(DataError, match=r"at most 1000 bytes .* found 1200 bytes in 2\. Nothing"):
        unpack(tar(tmp_path / "a.tar.gz", regular("x", 600), regular("y", 600)), tmp_path / "out")


def test_a_damaged_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar.gz", regular("one/x", 5000))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match="expected a whole tar or zip archive"):
        unpack(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
