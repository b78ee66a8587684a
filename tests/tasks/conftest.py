from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.locate import present


@pytest.fixture
def real_data() -> Callable[..., Path]:
    """The folder with the real data; a test that needs a set that is not there is skipped."""

    def folder(*needed: str) -> Path:
        if "UCLEARN_DATA" not in os.environ:
            pytest.skip("UCLEARN_DATA is not set: the real data are not at hand")
        base = Path(os.environ["UCLEARN_DATA"])
        for name in needed:
            if any(present(file, base) is None for file in dataset(name).files):
                pytest.skip(f"{name} is not in UCLEARN_DATA ({base})")
        return base

    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The platform's cache folder, for this test alone."""
    place = tmp_path / "platform-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place
