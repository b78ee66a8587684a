"""What the library works on."""

from __future__ import annotations

import torch

from tests.native.alone import torch_alone, with_library
from uclearn.native import calls

pytestmark = with_library


def test_other_tensors_are_left_to_torch() -> None:
    weight = torch.zeros(3, 4)
    assert calls.usable(weight)
    assert not calls.usable(weight.double())
    assert not calls.usable(weight.T)
    assert not calls.usable(weight.bfloat16())
    assert calls.usable_activations(weight.bfloat16())
    assert not calls.usable(weight.to("meta"))
    with torch_alone():
        assert not calls.usable(weight)
