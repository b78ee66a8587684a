"""The library is made once and kept; what stands against it is told, and torch goes on alone."""

from __future__ import annotations

import ctypes
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from uclearn.native import build, in_use

pytestmark = pytest.mark.slow  # a compiler takes seconds
with_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def asked_anew() -> ctypes.CDLL | str:
    """As a process that has not asked yet."""
    return build.library.__wrapped__()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.delenv("CC", raising=False)
    # how it is found matters here, not how fast it is: a tenth of the time
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))
    return tmp_path / "uclearn" / "native"


@with_compiler
def test_it_is_compiled_once_and_then_found(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not isinstance(asked_anew(), str)
    (made,) = own_cache.iterdir()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not isinstance(asked_anew(), str)
    assert list(own_cache.iterdir()) == [made]


@with_compiler
def test_many_may_compile_it_at_once(own_cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: asked_anew(), range(4)))
    assert not any(isinstance(each, str) for each in found)
    assert len(list(own_cache.iterdir())) == 1


def test_the_switch_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.SWITCH, "0")
    assert asked_anew() == "UCLEARN_NATIVE=0"


def test_a_compiler_that_fails_is_no_misfortune(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    assert asked_anew() == "false failed: no message"
    assert list(own_cache.iterdir()) == []
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler" in str(asked_anew())


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert asked_anew() == "no C compiler"


def test_where_nothing_can_be_kept_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "uclearn").write_text("a file where a folder should be")
    assert isinstance(asked_anew(), str)


def test_who_does_the_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "library", lambda: "no C compiler")
    assert in_use() == "torch (no C compiler)"
    monkeypatch.setattr(build, "library", lambda: object())
    assert in_use() == "native"
