"""From values to places."""

from __future__ import annotations

import pytest

from uclearn.report.drawing.axes import Axis


def test_a_range_that_is_given_is_kept() -> None:
    axis = Axis({"range": [0, 10]}, [3.0], 100, 200)
    assert [axis.place(value) for value in (0, 5, 10)] == [100, 150, 200]


def test_less_is_up_where_an_axis_is_reversed() -> None:
    axis = Axis({"autorange": "reversed"}, [0.0, 1.0], 200, 100)  # from the bottom to the top
    assert axis.place(0.0) < axis.place(1.0)


def test_each_power_has_the_same_room_on_a_logarithmic_axis() -> None:
    axis = Axis({"type": "log", "range": [-3, 0]}, [], 0, 30)
    assert [axis.place(10.0**k) for k in (-3, -2, -1, 0)] == pytest.approx([0, 10, 20, 30])


@pytest.mark.parametrize(
    ("layout", "ends", "words"),
    [
        ({"tickformat": ".1~%"}, (0.955, 0.975), ["95.5%", "96%", "96.5%", "97%", "97.5%"]),
        ({}, (0, 2_000_000), ["0", "0.5M", "1M", "1.5M", "2M"]),
        ({"tickvals": [1, 5, 10], "ticktext": ["a", "b", "c"]}, (0, 6), ["a", "b"]),
        ({"visible": False}, (0, 1), []),
    ],
)
def test_what_is_written_at_it(
    layout: dict[str, object], ends: tuple[float, float], words: list[str]
) -> None:
    axis = Axis({**layout, "range": list(ends)}, [], 0, 100)
    assert [word for _, word in axis.ticks()] == words
