from __future__ import annotations

import hashlib
import io
import socket
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.sources.server import Mirror, Server, serving
from uclearn.errors import DataError
from uclearn.tasks.sources import download as module
from uclearn.tasks.sources.catalogue import CATALOGUE
from uclearn.tasks.sources.dataset import DataSet, Download, File, Version
from uclearn.tasks.sources.download import fetch, get, unpack

CONTENT = np.random.default_rng(0).bytes(300_000)
CHUNK = 2**16  # what arrives is kept in pieces of this size
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def download(*mirrors: str, content: bytes = CONTENT, unpack: bool = False) -> Download:
    md5 = hashlib.md5(content).hexdigest()
    return Download("file.bin", md5, None, mirrors, into="set", unpack=unpack)


def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/file.bin"


def test_a_file_comes_whole_with_progress(server: Server, tmp_path: Path) -> None:
    url = server.add("/file.bin", Mirror(CONTENT))
    seen: list[tuple[str, int, int | None]] = []
    path = fetch(download(url), tmp_path, lambda *now: seen.append(now))
    assert path == tmp_path / "file.bin"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("file.bin", 300_000, 300_000)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["file.bin"]


def test_what_is_there_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    mirror = Mirror(CONTENT)
    wanted = download(server.add("/file.bin", mirror))
    fetch(wanted, tmp_path)
    fetch(wanted, tmp_path)
    assert len(mirror.asked) == 1


def test_a_broken_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    mirror = Mirror(CONTENT, breaks=[2 * CHUNK, CHUNK])
    path = fetch(download(server.add("/file.bin", mirror)), tmp_path)
    assert path.read_bytes() == CONTENT
    assert mirror.asked == [None, f"bytes={2 * CHUNK}-", f"bytes={3 * CHUNK}-"]


def test_a_later_run_goes_on_where_the_last_one_stopped(server: Server, tmp_path: Path) -> None:
    mirror = Mirror(CONTENT, breaks=[2 * CHUNK, 0, 0])
    wanted = download(server.add("/file.bin", mirror))
    with pytest.raises(DataError, match="it goes on where it stopped"):
        fetch(wanted, tmp_path)
    assert not (tmp_path / "file.bin").exists()
    mirror.asked.clear()
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT
    assert mirror.asked == [f"bytes={2 * CHUNK}-"]


def test_a_server_that_knows_no_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    mirror = Mirror(CONTENT, ranges=False, breaks=[CHUNK])
    assert fetch(download(server.add("/file.bin", mirror)), tmp_path).read_bytes() == CONTENT
    assert mirror.asked == [None, f"bytes={CHUNK}-"]


def test_a_part_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    mirror = Mirror(CONTENT)
    (tmp_path / "file.bin.part").write_bytes(bytes(300_000))
    assert fetch(download(server.add("/file.bin", mirror)), tmp_path).read_bytes() == CONTENT
    assert mirror.asked == ["bytes=300000-", None]


def test_a_dead_mirror_hands_over_to_the_next(server: Server, tmp_path: Path) -> None:
    url = server.add("/file.bin", Mirror(CONTENT))
    gone = server.add("/gone/file.bin", Mirror(b"", status=404))
    path = fetch(download(unused_address(), gone, url), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_tampered_file_never_takes_its_place(server: Server, tmp_path: Path) -> None:
    forged = bytearray(CONTENT)
    forged[1000] ^= 1
    bad = server.add("/bad/file.bin", Mirror(bytes(forged)))
    with pytest.raises(DataError, match=r"(?s)could not be downloaded .*/bad/file\.bin: .*hash"):
        fetch(download(bad), tmp_path)
    assert list(tmp_path.iterdir()) == []  # neither the file nor a part to go on from
    good = server.add("/file.bin", Mirror(CONTENT))
    assert fetch(download(bad, good), tmp_path).read_bytes() == CONTENT


def test_a_truncated_file_that_claims_to_be_whole_is_refused(
    server: Server, tmp_path: Path
) -> None:
    url = server.add("/file.bin", Mirror(CONTENT[:-5]))
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(download(url), tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_every_failure_is_reported(server: Server, tmp_path: Path) -> None:
    first = server.add("/one/file.bin", Mirror(b"", status=404))
    second = server.add("/two/file.bin", Mirror(b"", status=500))
    with pytest.raises(DataError) as caught:
        fetch(download(first, second), tmp_path)
    text = str(caught.value)
    assert f"{first}: 404" in text
    assert f"{second}: 500" in text
    assert f"file.bin could not be downloaded to {tmp_path}" in text


def test_a_damaged_file_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"damaged")
    url = server.add("/file.bin", Mirror(CONTENT))
    assert fetch(download(url), tmp_path).read_bytes() == CONTENT


def plain_set(url: str) -> DataSet:
    file = File("only", (Version("set/file.bin", MD5),))
    return DataSet("mini", "a test", "home", (file,), (download(url),))


def test_get_puts_a_set_in_its_place_and_says_so(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(CONTENT)
    monkeypatch.setitem(CATALOGUE, "mini", plain_set(server.add("/file.bin", mirror)))
    result = get("mini", tmp_path)
    assert result.state == "verified"
    assert (tmp_path / "set" / "file.bin").read_bytes() == CONTENT
    assert get("mini", tmp_path).state == "verified"
    assert len(mirror.asked) == 1
    (tmp_path / "set" / "file.bin").write_bytes(b"damaged")
    assert get("mini", tmp_path).state == "verified"


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_get_unpacks_archives_and_leaves_none_behind(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive({"letters/a": CONTENT, "letters/b": b"b"})
    url = server.add("/file.bin", Mirror(packed))
    file = File("only", (Version("set/letters/a", MD5),))
    entry = DataSet("mini", "t", "h", (file,), (download(url, content=packed, unpack=True),))
    monkeypatch.setitem(CATALOGUE, "mini", entry)
    assert get("mini", tmp_path).state == "verified"
    assert (tmp_path / "set" / "letters" / "b").read_bytes() == b"b"
    assert list((tmp_path / ".uclearn").iterdir()) == []


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
