"""In how many digits a device multiplies best: what `precision="auto"` comes to.

A processor's flags are not enough. Some that know bfloat16 multiply it more slowly than float32,
and some virtual machines announce instructions whose use ends the process. So a product is tried
first, in a process of its own: this file, run as a script, prints the time of a product in bfloat16
over that of the same in float32.
"""

import functools
import subprocess
import sys
import time
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16", "auto"]

_WORTH_IT = 0.8
"""Products in bfloat16 must take less than this part of the time: where they are native it is
about a half, elsewhere more than one, so that noise does not decide."""


def best_on(device: torch.device) -> Precision:
    """bfloat16 where `device` multiplies it natively and faster, else float32."""
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device)[0] >= 8
    else:
        native = device.type == "cpu" and _announced() and _tried() < _WORTH_IT
    return "bfloat16" if native else "float32"


def check_survives(device: torch.device) -> None:
    """Refuse to go on in bfloat16 where it would end the process without a word."""
    if device.type == "cpu" and _announced() and _tried() == float("inf"):
        from uclearn.errors import SettingError  # not on top: the script needs torch alone

        raise SettingError(
            "`precision` came to bfloat16 where this run was begun, but products in bfloat16 fail "
            "here, although the processor announces them. Go on with it on another machine, or "
            "set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
        )


def _announced() -> bool:
    """Whether the processor says that it multiplies bfloat16."""
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # not in every torch
    return any(getattr(torch.cpu, name, bool)() for name in asked)


@functools.cache
def _tried() -> float:
    """Time in bfloat16 / time in float32, infinite where the trial did not survive."""
    script = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return float("inf")


def _time_ratio() -> float:
    """Interleaved, the best of several, on one thread."""
    torch.set_num_threads(1)
    single = torch.ones(256, 512), torch.ones(512, 512)
    half = tuple(factor.bfloat16() for factor in single)
    best = [float("inf")] * 2
    for _ in range(12):
        for which, (left, right) in enumerate((half, single)):
            begin = time.perf_counter()
            left @ right
            best[which] = min(best[which], time.perf_counter() - begin)
    torch.ones(64, 64).bfloat16() @ torch.ones(64, 64).bfloat16()  # small ones go another way
    return best[0] / best[1]


if __name__ == "__main__":
    sys.stdout.write(str(_time_ratio()))
