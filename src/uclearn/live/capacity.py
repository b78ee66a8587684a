"""How much room a live network has left: which nodes are certain, and when it will be full.

What *certain* and *full* mean, and how the forecast is drawn, is defined in
`uclearn.measures.capacity`, and the report shows the same numbers. In a network without heads the
output layer becomes certain first, as it should: it has as many nodes as there are classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uclearn.errors import TaskError
from uclearn.measures.capacity import (
    FARTHEST,
    FULL,
    PACE_TASKS,
    Forecast,
    Layer,
    certain_share,
    concerns,
    digest,
    filled_of_present,
    filled_share,
    forecast,
    layers_of,
    outlook_words,
)
from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import node_state


@dataclass(frozen=True)
class Room:
    """How full one layer, or the whole network, is."""

    name: str
    nodes: int
    certain: int
    """How many of them are held firmly; the others are free to learn."""
    shares: tuple[float, ...]
    """The share of certain nodes after each recorded task, the present state last."""
    filled: float
    """How full it is: the same, less what certain nodes can still learn where outputs are held."""
    outlook: Forecast | None
    """Where that leads at the pace of the last few tasks; None with less than three."""

    @property
    def share(self) -> float:
        """The share of certain nodes now."""
        return self.shares[-1]


@dataclass(frozen=True)
class Capacity:
    """How full a network is, how it came to be and where that leads."""

    layers: tuple[Room, ...]
    network: Room
    words: str
    """What to expect, and what to do about it."""

    def __str__(self) -> str:
        width = max(len(room.name) for room in (*self.layers, self.network))
        lines = [
            f"{room.name:<{width}}  {room.certain:>6} of {room.nodes} certain ({room.share:.0%})"
            for room in (*self.layers, self.network)
        ]
        return "\n".join([*lines, self.words])


def capacity(method: Method, history: Sequence[Mapping[str, Any]] = ()) -> Capacity:
    """How full the network of `method` is.

    Args:
        method: one that knows an uncertainty for each node: UCL, with or without wrappers.
        history: what `node_state` gave after each earlier task, or a `digest` of it, in order;
            the present state is added if it is not there yet.

    >>> import torch
    >>> from uclearn import UCL
    >>> method = UCL(torch.nn.Linear(4, 2), torch.zeros(1, 4))
    >>> print(capacity(method).words)
    0 % of all nodes are certain. Three tasks are needed for a forecast.
    """
    now = node_state(method, len(history))
    if now is None:
        raise TaskError(
            f"{type(method).__name__} knows no uncertainty of nodes, so it cannot be told how full "
            "its network is. UCL does."
        )
    last = history[-1]["layers"] if history else None
    known = last is not None and last in (now["layers"], digest(now["layers"]))
    return capacity_of(history if known else [*history, now])


def capacity_of(history: Sequence[Mapping[str, Any]]) -> Capacity:
    """The same from recorded states alone, one per task in order, such as the `nodes` events of a
    run; the network may have been widened in between."""
    numbered = [{**state, "event": "nodes", "task": task} for task, state in enumerate(history)]
    layers = layers_of(numbered)
    if not layers:
        raise TaskError("`history` must hold the recorded nodes of at least one task, got none.")
    rooms = tuple(_room(layer.name or "the network itself", [layer]) for layer in layers)
    network = _room("whole network", layers)
    return Capacity(rooms, network, " ".join([_words(rooms, network), *concerns(layers)]))


def _room(name: str, layers: Sequence[Layer]) -> Room:
    return Room(
        name=name,
        nodes=sum(layer.nodes for layer in layers),
        certain=sum(layer.certain()[-1] for layer in layers),
        shares=tuple(certain_share(layers)),
        filled=filled_share(layers)[-1],
        outlook=forecast(filled_of_present(layers)),
    )


def _words(rooms: Sequence[Room], network: Room) -> str:
    tasks = len(network.shares)
    sentences = [f"{network.share * 100:.0f} % of all nodes are certain."]
    if network.filled < network.share:
        sentences.append(
            f"Their outputs are held where inputs have pointed so far, which fills the network to "
            f"{network.filled * 100:.0f} %."
        )
    sentences.append(outlook_words(network.outlook, tasks))
    if network.outlook is not None and network.outlook.full_at is not None:
        sentences.append(f"(Pace of the last {min(tasks, PACE_TASKS)} tasks; full is {FULL:.0%}.)")
    full = [room.name for room in rooms if room.filled >= FULL]
    if full:
        sentences.append(f"Full already: {', '.join(full)}.")
    else:
        sentences += _first_to_fill(rooms, tasks)
    if _near(network, tasks) or len(full) == len(rooms):
        sentences.append(
            "A full network holds on to what it knows and learns little more: widen it "
            "(`uclearn.live.widen`), or raise `beta`, which lets old tasks go sooner."
        )
    return " ".join(sentences)


def _first_to_fill(rooms: Sequence[Room], tasks: int) -> list[str]:
    near = [room for room in rooms if _near(room, tasks)]
    if not near:
        return []
    first = min(near, key=_full_at)
    return [f"The first layer to fill is `{first.name}`, after about task {_full_at(first):.0f}."]


def _near(room: Room, tasks: int) -> bool:
    """A forecast that does not reach farther than what is known bears it out."""
    return _full_at(room) <= FARTHEST * tasks


def _full_at(room: Room) -> float:
    at = None if room.outlook is None else room.outlook.full_at
    return math.inf if at is None else float(math.ceil(at))
