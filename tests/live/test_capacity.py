"""How full a network is, by hand-made states and by a real method."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL, Method
from uclearn.errors import TaskError
from uclearn.live.capacity import capacity, capacity_of
from uclearn.measures.capacity import FULL, Layer, certain_share, filled_of_present
from uclearn.methods.parts.wrapper import node_state
from uclearn.methods.replay import WithReplay
from uclearn.surgery.growth import widen


def state(**layers: tuple[int, int]) -> dict[str, Any]:
    """(certain, nodes) by layer, as they are recorded."""
    return {
        "layers": {
            name: {"sigma_init": 0.1, "sigma": [0.01] * certain + [0.1] * (nodes - certain)}
            for name, (certain, nodes) in layers.items()
        }
    }


def test_shares_by_layer_and_in_all() -> None:
    found = capacity_of([state(a=(1, 10), b=(0, 30)), state(a=(5, 10), b=(3, 30))])
    assert [(r.name, r.certain, r.nodes, r.shares) for r in found.layers] == [
        ("a", 5, 10, (0.1, 0.5)),
        ("b", 3, 30, (0.0, 0.1)),
    ]
    assert found.network.shares == (0.025, 0.2)


def test_the_forecast_and_its_consequence() -> None:
    """20 points with each task, 60 % after three: 95 % is reached 1.75 tasks later."""
    found = capacity_of([state(a=(20 * t, 100)) for t in (1, 2, 3)])
    assert found.network.outlook is not None
    assert found.network.outlook.full_at == pytest.approx(3 + (FULL - 0.6) / 0.2)
    assert "60 % of all nodes are certain." in found.words
    assert "At its present pace the network is full after about task 5." in found.words
    assert "The first layer to fill is `a`, after about task 5." in found.words
    assert "widen it (`uclearn.live.widen`), or raise `beta`" in found.words


def test_a_network_that_does_not_fill_up_is_not_said_to() -> None:
    found = capacity_of([state(a=(30, 100))] * 6)
    assert "It is not filling up at present." in found.words
    assert "widen" not in found.words


def test_a_forecast_far_away_is_only_said_to_be_far() -> None:
    """Half a point with each task: full in 180 tasks, which six tasks cannot tell."""
    found = capacity_of([state(a=(5 + t, 200)) for t in range(6)])
    assert "is not full before task 18." in found.words
    assert "widen" not in found.words


def test_less_than_three_tasks_make_no_forecast() -> None:
    assert "Three tasks are needed for a forecast." in capacity_of([state(a=(1, 9))] * 2).words


def test_certain_nodes_whose_outputs_are_held_leave_room() -> None:
    """All certain, but a tenth of the directions taken, one more with each task: full at 95 %."""
    states = [state(a=(100, 100)) for _ in range(3)]
    for number, each in enumerate(states):
        each["layers"]["a"]["taken"] = 0.1 + 0.01 * number
    found = capacity_of(states)
    assert found.network.share == 1.0
    assert found.network.filled == pytest.approx(0.12)
    assert "where inputs have pointed so far, which fills the network to 12 %." in found.words
    assert "is not full before task 9." in found.words
    assert "Full already" not in found.words


def test_full_layers_are_named() -> None:
    found = capacity_of([state(a=(10, 10), b=(1, 90))] * 4)
    assert "Full already: a." in found.words
    assert "widen" not in found.words
    full = capacity_of([state(a=(10, 10), b=(90, 90))] * 4)
    assert "The network has been full since task 1." in full.words
    assert "widen it" in full.words


def test_widening_makes_room_but_no_jump_in_the_pace() -> None:
    """10 certain nodes more with each task, of 100 and then of 200."""
    history = [state(a=(10 * t, 100 if t < 4 else 200)) for t in (1, 2, 3, 4, 5)]
    found = capacity_of(history).layers[0]
    assert found.shares == (0.1, 0.2, 0.3, 0.2, 0.25)
    assert found.outlook is not None
    assert found.outlook.growth == pytest.approx(0.05)
    layer = Layer("a", 0.1, [s["layers"]["a"]["sigma"] for s in history])
    assert certain_share([layer])[2] == 0.3
    assert filled_of_present([layer])[2] == 0.15


def made_certain(method: UCL, nodes: int) -> None:
    """As if the first nodes of the first layer had been learned."""
    with torch.no_grad():
        method.model.get_parameter("0.rho")[:nodes] = -8.0
    method.end_task()


def test_the_present_state_counts_once() -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    method = paper_ucl(net, torch.zeros(1, 2))
    assert capacity(method).network.shares == (0.0,)
    history = []
    for nodes in (1, 2):
        made_certain(method, nodes)
        line = node_state(method, nodes - 1)
        assert line is not None
        history.append(line)
    assert capacity(method, history).layers[0].shares == (0.25, 0.5)
    assert capacity(method, history[:1]).layers[0].shares == (0.25, 0.5)
    assert capacity(WithReplay(method), history).layers[0].shares == (0.25, 0.5)
    wide = widen(method, 2.0, torch.zeros(1, 2))
    assert capacity(wide, history).layers[0].shares == (0.25, 0.5, 0.25)
    assert str(capacity(method)).splitlines()[0] == "0" + " " * 19 + "2 of 4 certain (50%)"


def test_other_methods_and_no_history_are_refused() -> None:
    with pytest.raises(TaskError, match="Method knows no uncertainty of nodes"):
        capacity(Method(nn.Linear(2, 2)))
    with pytest.raises(TaskError, match="`history` must hold the recorded nodes"):
        capacity_of([])
