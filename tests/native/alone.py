"""The library against torch alone, and with other numbers of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from uclearn.native import build, calls

with_library = pytest.mark.skipif(
    isinstance(build.library(), str), reason="there is no library on this machine"
)


@contextlib.contextmanager
def torch_alone() -> Iterator[None]:
    """As where there is no compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "library", lambda: "switched off by a test")
        yield


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
