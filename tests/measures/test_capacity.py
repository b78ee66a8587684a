"""Which nodes are certain, and when a network is full."""

import pytest

from tests.report.runs import LAYERS, nodes
from uclearn.measures.capacity import (
    FULL,
    Layer,
    certain_share,
    concerns,
    filled_share,
    forecast,
    layers_of,
)


def test_a_node_is_certain_below_half_of_its_initial_deviation() -> None:
    layer = Layer("0", 0.06, [[0.06, 0.031, 0.03, 0.029], [0.2, 0.01, 0.01, 0.01]])
    assert layer.certain() == [1, 3]
    assert certain_share([layer]) == [0.25, 0.75]


def test_layers_count_by_their_nodes() -> None:
    """Ten certain nodes of 10 and none of 90: a tenth, not a half."""
    small, large = Layer("a", 1.0, [[0.1] * 10]), Layer("b", 1.0, [[1.0] * 90])
    assert certain_share([small, large]) == [0.1]


def test_the_forecast_of_a_straight_line_is_where_it_crosses() -> None:
    """5 points with each task, 50 % after ten: 95 % nine tasks later."""
    found = forecast([0.05 * (i + 1) for i in range(10)])
    assert found is not None
    assert found.growth == pytest.approx(0.05)
    assert found.full_at == pytest.approx(19)


def test_the_forecast_goes_by_the_last_five_tasks() -> None:
    """Slow at first, then 10 points with each task: the pace is 10 points."""
    found = forecast([0.0] * 10 + [0.1, 0.2, 0.3, 0.4, 0.5])
    assert found is not None
    assert found.growth == pytest.approx(0.1)
    assert found.full_at == pytest.approx(15 + 4.5)


def test_a_network_that_stands_still_or_empties_is_never_full() -> None:
    for shares in ([0.3] * 6, [0.6, 0.5, 0.4, 0.3]):
        found = forecast(shares)
        assert found is not None
        assert found.full_at is None


def test_a_full_network_says_since_when() -> None:
    found = forecast([0.5, FULL, 0.9, FULL, 1.0])
    assert found is not None
    assert found.full_at == 4


def test_two_tasks_make_no_pace() -> None:
    assert forecast([0.1, 0.2]) is None


def test_layers_come_from_the_events_of_a_run_in_the_order_of_the_tasks() -> None:
    told = [{"event": "nodes", **event} for event in nodes(3, seed=0)]
    other = {"event": "evaluation", "task": 0, "scores": [1.0]}
    layers = layers_of([other, *reversed(told)])
    assert {layer.name: layer.nodes for layer in layers} == LAYERS
    assert layers[0].sigma == [event["layers"]["0"]["sigma"] for event in told]
    assert layers_of([other]) == []


def test_certain_nodes_are_full_only_where_their_inputs_have_been() -> None:
    certain = [[0.01] * 10]
    held, free = Layer("0", 0.1, certain), Layer("0", 0.1, certain, taken=[0.3])
    assert (filled_share([held]), filled_share([free])) == ([1.0], [0.3])
    assert concerns([held])[0].startswith("The network is full: 100 % of its nodes are certain")
    assert concerns([free]) == []
    assert concerns([Layer("0", 0.1, certain, taken=[0.97])])[0].startswith("The network is full")


def test_what_is_taken_is_read_where_all_tasks_tell_it() -> None:
    told = [{"event": "nodes", **event} for event in nodes(2, seed=0)]
    assert layers_of(told)[0].taken == []
    for event in told:
        event["layers"]["0"]["taken"] = 0.25
    assert layers_of(told)[0].taken == [0.25, 0.25]
