from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import present


@pytest.fixture
def folder_with(real_data: Path) -> Callable[..., Path]:
    """The folder with the real data; a test is skipped if one of the sets it names is not there."""

    def folder(*needed: str) -> Path:
        for name in needed:
            if any(present(file, real_data) is None for file in dataset(name).files):
                pytest.skip(f"{name} is not in UCLEARN_DATA ({real_data})")
        return real_data

    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The platform's cache folder, for this test alone."""
    place = tmp_path / "platform-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    return place
