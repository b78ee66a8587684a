"""Spaces: what is supported, and what is said about the rest."""

import pytest

from tests.rl.strange import HERE
from uclearn.errors import SimulatorError
from uclearn.rl.environments import survey

pytestmark = pytest.mark.rl


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Keyed", r"The observation space of .*Keyed-v0' must be a Box .* got Dict\('angle'.*Only"),
        ("Switched", r"The action space of .*Switched-v0' must be a Box .* got Discrete\(3\)"),
    ],
)
def test_only_boxes_are_supported(name: str, message: str) -> None:
    with pytest.raises(SimulatorError, match=message):
        survey([f"{HERE}:{name}-v0"])


def test_bounds_are_read_number_by_number() -> None:
    (spaces,) = survey([f"{HERE}:Counter-v0"]).values()
    assert spaces == (3, 2, (-1.0, -2.0), (1.0, float("inf")))
