"""How full a network is: which nodes are certain, which are free, and where that leads.

A node is *certain* when its standard deviation has fallen below half of what it began with: the
strength sigma_init / sigma is then above 2, and since eq. (4) squares it, UCL holds the node more
than four times as firmly as one that was never needed. All others are *free* to learn.

Where weights are held, that is all: a network (or layer) is *full* when 95 % of its nodes are
certain. Where outputs are held, a certain node goes on learning from inputs that point where none
has pointed before. Of the directions that a layer's inputs can take, the share that is *taken* is

    (tr C)^2 / tr(C^2) / inputs,     C = covariance of what the layer was given in earlier tasks

(1 if all vary alike, 1 / inputs if one varies alone), and the layer is full when 95 % of its
weights are: the share of certain nodes times the share of taken directions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CERTAIN = 0.5
"""A node is certain when its sigma is below this share of its initial value."""
FULL = 0.95
PACE_TASKS = 5
"""The forecast goes on at the pace of so many last tasks."""
FARTHEST = 3
"""No forecast reaches beyond so many times the tasks that are known."""
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
"""Of sigma / initial sigma over the nodes of a layer: what a run's summary keeps of them."""
_STANDSTILL = 0.001  # certain nodes gained per task, as a share, that count as none


@dataclass(frozen=True)
class Layer:
    """One layer's nodes over the tasks of one run."""

    name: str
    sigma_init: float
    sigma: Sequence[Sequence[float]]
    """[task][node]"""
    taken: Sequence[float] = ()
    """[task] the share of the directions of its inputs that is taken; none: weights are held."""

    def certain(self) -> list[int]:
        """How many nodes are certain after each task."""
        return [sum(self.is_certain(value) for value in nodes) for nodes in self.sigma]

    def filled(self) -> list[float]:
        """How many nodes' worth of weights are held after each task."""
        if not self.taken:
            return [float(count) for count in self.certain()]
        return [count * taken for count, taken in zip(self.certain(), self.taken, strict=True)]

    def is_certain(self, sigma: float) -> bool:
        """Whether a node of this layer with the standard deviation `sigma` is certain."""
        return sigma < CERTAIN * self.sigma_init

    def course(self, node: int) -> list[float | None]:
        """The node's sigma after each task; None before it was there."""
        return [nodes[node] if node < len(nodes) else None for nodes in self.sigma]

    @property
    def nodes(self) -> int:
        """How many there are; a network that was widened, or got new outputs, had fewer before."""
        return len(self.sigma[-1])


def layers_of(events: Sequence[Mapping[str, Any]]) -> list[Layer]:
    """The layers that the `nodes` events of a run tell of; none for other methods."""
    told = sorted((e for e in events if e.get("event") == "nodes"), key=lambda e: e["task"])
    if not told:
        return []
    found = []
    for name, first in told[0]["layers"].items():
        if all(name in event["layers"] for event in told):
            own = [event["layers"][name] for event in told]
            taken = [one["taken"] for one in own] if all("taken" in one for one in own) else []
            found.append(Layer(name, first["sigma_init"], [_sigmas(one) for one in own], taken))
    return found


def digest(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the nodes of each layer come to, of a size that does not grow with their number: how
    many there are, how many are certain, and the `QUANTILES` of sigma over the initial one.

    >>> digest({"0": {"sigma_init": 0.1, "sigma": [0.04, 0.1]}})["0"]["certain"]
    1
    """
    found = {}
    for name, layer in layers.items():
        start, sigma = layer["sigma_init"], layer["sigma"]
        certain = sum(value < CERTAIN * start for value in sigma)
        rest = {key: value for key, value in layer.items() if key != "sigma"}
        ratios = np.quantile([value / start for value in sigma], QUANTILES).tolist()
        short = [float(f"{ratio:.4g}") for ratio in ratios]
        found[name] = {**rest, "nodes": len(sigma), "certain": certain, "quantiles": short}
    return found


def _sigmas(layer: Mapping[str, Any]) -> Sequence[float]:
    """The sigma of each node; out of a digest as many nodes of which as many are certain, smallest
    first, spread as its quantiles are."""
    if "sigma" in layer:
        told: Sequence[float] = layer["sigma"]
        return told
    count, certain, start = layer["nodes"], layer["certain"], layer["sigma_init"]
    ratios = np.interp(np.linspace(0, 1, count), QUANTILES, layer["quantiles"])
    ratios[:certain] = np.minimum(ratios[:certain], np.nextafter(CERTAIN, 0) * (1 - 1e-9))
    ratios[certain:] = np.maximum(ratios[certain:], CERTAIN * (1 + 1e-9))
    spread: list[float] = (ratios * start).tolist()
    return spread


def certain_share(layers: Sequence[Layer]) -> list[float]:
    """After each task the share of all nodes of `layers` that are certain.

    >>> certain_share([Layer("0", 0.1, [[0.2, 0.04], [0.04, 0.04]])])
    [0.5, 1.0]
    """
    counts = zip(*(layer.certain() for layer in layers), strict=True)
    totals = zip(*(map(len, layer.sigma) for layer in layers), strict=True)
    return [sum(count) / sum(total) for count, total in zip(counts, totals, strict=True)]


def filled_share(layers: Sequence[Layer]) -> list[float]:
    """After each task how full `layers` are.

    >>> filled_share([Layer("0", 0.1, [[0.2, 0.04], [0.04, 0.04]], taken=[0.1, 0.2])])
    [0.05, 0.2]
    """
    counts = zip(*(layer.filled() for layer in layers), strict=True)
    totals = zip(*(map(len, layer.sigma) for layer in layers), strict=True)
    return [sum(count) / sum(total) for count, total in zip(counts, totals, strict=True)]


def filled_of_present(layers: Sequence[Layer]) -> list[float]:
    """After each task how full `layers` would have been with the nodes that there are now.

    A network that was widened has a jump in `filled_share`, but none here: its pace can be read
    from tasks on both sides.

    >>> filled_of_present([Layer("0", 0.1, [[0.2, 0.04], [0.04, 0.04, 0.1, 0.1]])])
    [0.25, 0.5]
    """
    total = sum(layer.nodes for layer in layers)
    counts = zip(*(layer.filled() for layer in layers), strict=True)
    return [sum(count) / total for count in counts]


@dataclass(frozen=True)
class Forecast:
    """Where the share that is full leads at the present pace."""

    growth: float
    """Of the share, per task."""
    full_at: float | None
    """The task, counted from 1 and with a fraction, after which 95 % are; None: never at this
    pace."""


def forecast(shares: Sequence[float]) -> Forecast | None:
    """Draw the line of least squares through the last `PACE_TASKS` shares out to `FULL`.

    None with less than three tasks, which make no pace. Already full: the first task from which
    on it was.

    >>> forecast([0.25, 0.5, 0.75]).full_at
    3.8
    """
    if len(shares) < 3:
        return None
    recent = shares[-PACE_TASKS:]
    growth = _slope(recent)
    full_since = next((i for i in range(len(shares)) if min(shares[i:]) >= FULL), None)
    if full_since is not None:
        return Forecast(growth, full_since + 1.0)
    if growth < _STANDSTILL:
        return Forecast(growth, None)
    return Forecast(growth, len(shares) + (FULL - shares[-1]) / growth)


def outlook_words(outlook: Forecast | None, tasks: int) -> str:
    """The forecast as a sentence.

    >>> outlook_words(Forecast(0.05, 14.3), tasks=10)
    'At its present pace the network is full after about task 15.'
    """
    if outlook is None:
        return "Three tasks are needed for a forecast."
    if outlook.full_at is None:
        return "It is not filling up at present."
    if outlook.full_at <= tasks:
        return f"The network has been full since task {math.ceil(outlook.full_at)}."
    if outlook.full_at > FARTHEST * tasks:
        return f"At its present pace the network is not full before task {FARTHEST * tasks}."
    return f"At its present pace the network is full after about task {math.ceil(outlook.full_at)}."


_UNMOVED = 0.1
"""By less than this share of its initial value a sigma has hardly moved."""


def concerns(layers: Sequence[Layer]) -> list[str]:
    """What is wrong with how the nodes stand after the last task, each with its remedy.

    >>> concerns([Layer("0", 0.1, [[0.1, 0.099]])])[0][:52]
    'The uncertainties have hardly moved, so no node is h'
    """
    if not layers:
        return []
    share = certain_share(layers)[-1]
    moved = max(abs(value / layer.sigma_init - 1) for layer in layers for value in layer.sigma[-1])
    if moved == 0:  # nothing has been learned yet
        return []
    if moved < _UNMOVED:
        return [
            "The uncertainties have hardly moved, so no node is held more firmly than another: "
            "lr_sigma times the steps of the task is too small. Leave lr_sigma to its rule "
            "('auto'), or train for more epochs or with smaller batches."
        ]
    if share == 0:
        return [
            "No node is certain after this task (sigma below half of its initial value), so little "
            "is held firmly. Train for more epochs or with smaller batches; if beta was set by "
            "hand, lower it."
        ]
    if filled_share(layers)[-1] >= FULL:
        return [
            f"The network is full: {100 * share:.0f} % of its nodes are certain, so new tasks are "
            "learned worse. Widen it (`Learner.widen`, `network.hidden`)."
        ]
    return []


def _slope(values: Sequence[float]) -> float:
    """The slope of the line of least squares through (0, values[0]), (1, values[1]), ..."""
    middle = (len(values) - 1) / 2
    average = sum(values) / len(values)
    moment = sum((k - middle) * (value - average) for k, value in enumerate(values))
    return moment / sum((k - middle) ** 2 for k in range(len(values)))
