"""What all tests share: one thread per worker, a fixed seed, and the way to real data."""

import os
import signal

# In the background of a script Ctrl-C is ignored, here and in every program that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported, and for the programs that tests start: two workers with a thread pool
# each would fight over the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX, and a product in bfloat16 that uses it ends the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

# The result of a run depends on the code alone, and a busy machine fails no deadline.
hypothesis.settings.register_profile("reproducible", deadline=None, derandomize=True)
hypothesis.settings.load_profile("reproducible")


@pytest.fixture(autouse=True)
def _same_randomness_for_every_test() -> Iterator[None]:
    """Seed torch, so that no test depends on which others ran before it in its worker."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the public data sets, from `UCLEARN_DATA`; without it the test is skipped."""
    folder = os.environ.get("UCLEARN_DATA")
    if not folder:
        pytest.skip("UCLEARN_DATA does not name the folder with the public data sets")
    return Path(folder)
