"""What the numbers were measured on."""

from __future__ import annotations

import platform
from datetime import date
from pathlib import Path
from typing import Any

import torch

from uclearn.native import in_use
from uclearn.training.precision import best_on

_WANTED = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def machine() -> dict[str, Any]:
    """The processor, what it can, and what it was used by."""
    return {
        "processor": _said("model name") or platform.machine(),
        "flags": processor_flags(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "weights": in_use(),
        "date": date.today().isoformat(),
    }


def processor_flags() -> list[str]:
    """Those that matter here."""
    known = _said("flags").split()
    return [flag for flag in _WANTED if flag in known]


def multiplies_bfloat16() -> bool:
    """Whether the processor gains by products in bfloat16: tried, as some virtual machines announce
    what ends the process."""
    return best_on(torch.device("cpu")) == "bfloat16"


def _said(what: str) -> str:
    place = Path("/proc/cpuinfo")
    lines = place.read_text().splitlines() if place.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(what)), "")
