from __future__ import annotations

from pathlib import Path

import pytest

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import CATALOGUE, dataset
from uclearn.tasks.sources.dataset import cache_folder, data_folder, locate


def test_given_comes_before_the_environment_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("UCLEARN_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "named"
    monkeypatch.delenv("UCLEARN_DATA")
    assert data_folder() == cache_folder() / "data"
    assert not own_cache.exists()  # asking creates nothing


def test_home_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder("~/sets") == tmp_path / "sets"


def test_missing_files_are_named_with_the_two_ways_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").touch()
    with pytest.raises(DataError) as caught:
        locate(dataset("mnist"), tmp_path)
    text = str(caught.value)
    assert f"{tmp_path}." in text
    assert "Missing: mnist/train-images-idx3-ubyte.gz and 2 more." in text  # the labels are there
    assert text.index("--data FOLDER") < text.index("Missing")  # what to do comes first
    assert "`uclearn data get mnist`" in text
    assert "UCLEARN_DATA" in text


@pytest.mark.parametrize("name", CATALOGUE)
def test_missing_files_are_said_in_two_short_lines(name: str) -> None:
    with pytest.raises(DataError) as caught:
        locate(dataset(name), Path("/home/somebody/.cache/uclearn/data"))
    assert len(str(caught.value)) <= 250
    assert str(caught.value).count("\n") == 1


def test_the_first_version_that_is_there_is_taken(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in dataset("mnist").files:
        (raw / file.role).touch()
    assert (
        locate(dataset("mnist"), tmp_path)["t10k-labels-idx1-ubyte"]
        == raw / "t10k-labels-idx1-ubyte"
    )
    (raw / "t10k-labels-idx1-ubyte.gz").touch()
    assert locate(dataset("mnist"), tmp_path)["t10k-labels-idx1-ubyte"].suffix == ".gz"


def test_an_unknown_set_lists_the_known_ones() -> None:
    with pytest.raises(
        DataError, match=r"no data set 'minst'\. Did you mean 'mnist'\? Known: mnist, fashion-mnist"
    ):
        dataset("minst")


def test_the_catalogue_is_well_formed() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert len({file.role for file in entry.files}) == len(entry.files)
        for download in entry.downloads:
            assert len(download.mirrors) >= 2
            assert len(bytes.fromhex(download.md5)) == 16
            assert all(mirror.endswith(download.name) for mirror in download.mirrors)
        sums = [version.md5 for file in entry.files for version in file.versions]
        assert all(md5 is None or len(bytes.fromhex(md5)) == 16 for md5 in sums)
