"""`uclearn predict`."""

from __future__ import annotations

import numpy as np

from tests.cli.months import FAST
from tests.cli.terminal import Uclearn
from tests.live.months import month


def test_npz_serves_as_well(uclearn: Uclearn) -> None:
    x, y = month(0)
    np.savez("january.npz", x=x.reshape(120, 2, 2).numpy(), y=y.numpy() + 7)
    said = uclearn("learn", "m", "--data", "january.npz", "--name", "january", *FAST)
    assert said.code == 0, said.err
    np.savez("x.npz", x=x.reshape(120, 2, 2).numpy())
    said = uclearn("predict", "m", "--data", "x.npz", "--json")
    labels = [line["label"] for line in said.lines()]
    assert sum(a == str(b) for a, b in zip(labels, (y + 7).tolist(), strict=True)) > 110
