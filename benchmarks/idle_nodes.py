"""A way to forget that no weight of a certain node has a part in: idle nodes wake up.

`python -m benchmarks.idle_nodes` (two minutes on one core) learns the small notMNIST with UCL and
the seed that loses most, and looks for what is to blame by putting parts of the network back to
where they were before the last task. It writes the table of docs/findings.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.pages import filled
from uclearn.methods.parts.wrapper import sigmas_by_layer
from uclearn.runs.prepare import Prepared, prepare
from uclearn.runs.resolve import resolve
from uclearn.training.session import evaluate, learn

SEED = 3
SHOWN = 3
SIGMAS = "sigmas"
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "findings.md"

State = dict[str, Any]
Nodes = list[int] | slice
ALL = slice(None)


def taught() -> tuple[Prepared, list[State], list[list[float]]]:
    """The tasks and a method that has learned them, its states in the beginning and after each of
    them, all accuracies."""
    config = resolve(
        "split-notmnist", "ucl", preset="best", seed=SEED, overrides={"plan.epochs": 100}
    )
    prepared = prepare(config)
    states = [_state(prepared)]

    def keep(event: str, details: dict[str, Any]) -> None:
        if event == "evaluation":
            states.append(_state(prepared))

    outcome = learn(prepared.method, prepared.tasks, config.make_plan(), observer=keep)
    return prepared, states, outcome.accuracy_matrix


def _state(prepared: Prepared) -> State:
    now = prepared.method.state_dict()
    copy = {key: value.clone() for key, value in now.items() if isinstance(value, Tensor)}
    return {**now, **copy, SIGMAS: sigmas_by_layer(prepared.method)}


class Blame:
    """What becomes of a task when nodes get the incoming weights back that they had before."""

    def __init__(self, prepared: Prepared, states: list[State], task: int) -> None:
        self.method, self.task = prepared.method, prepared.tasks[task]
        self.initial, self.before, self.after = states[0], states[-2], states[-1]
        self.layers: dict[str, dict[str, Any]] = self.before[SIGMAS]

    def put_back(self, back: dict[str, Nodes]) -> None:
        """The network after the last task, but for these nodes of each layer."""
        mixed = {key: value for key, value in self.after.items() if key != SIGMAS}
        for layer, nodes in back.items():
            for key in (f"model.{layer}.weight", f"model.{layer}.bias"):
                mixed[key] = self.after[key].clone()
                mixed[key][nodes] = self.before[key][nodes]
        self.method.load_state_dict(mixed)

    def awake(self, nodes: list[dict[str, Any]]) -> float:
        """The accuracy before the last task, had only these nodes become what they became."""
        back: dict[str, Nodes] = {}
        for number, (name, layer) in enumerate(self.layers.items(), start=1):
            woken = {each["node"] for each in nodes if each["layer"] == number}
            back[name] = [node for node in range(len(layer["sigma"])) if node not in woken]
        self.put_back(back)
        return evaluate(self.method, self.task)

    def outgoing(self, layer: int, node: int) -> dict[str, float]:
        """Of a node's weights to nodes that are certain: how far they had come from their initial
        values before the last task, and the accuracy after it, were they cut."""
        name = list(self.layers)[layer]  # counted from 1: the one behind
        certain = torch.tensor(self.layers[name]["sigma"]) < self.layers[name]["sigma_init"] / 2
        key = f"model.{name}.weight"
        first, then = (state[key][certain, node] for state in (self.initial, self.before))
        self.put_back({})
        with torch.no_grad():
            self.method.get_parameter(key)[certain, node] = 0
        accuracy = evaluate(self.method, self.task)
        return {"moved": ((then - first).norm() / first.norm()).item(), "cut": accuracy}

    def restored(self, layer: str, nodes: Nodes) -> float:
        """The task's accuracy then."""
        self.put_back({layer: nodes})
        return evaluate(self.method, self.task)

    def activities(self, back: dict[str, Nodes]) -> dict[str, Tensor]:
        """Per layer: what each node says on average, after its ReLU."""
        self.put_back(back)
        heard: dict[str, Tensor] = {}
        data = self.task.test
        assert data is not None
        with torch.no_grad(), ExitStack() as hooks:
            network = hooks.enter_context(self.method.inference(self.task.index))
            for name in self.layers:
                layer = network.get_submodule(name)
                hooks.callback(layer.register_forward_hook(partial(_hear, heard, name)).remove)
            network(data.batch(torch.arange(len(data))).inputs, self.task.index)
        return heard

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every node, and what its return alone would do."""
        was = self.activities(dict.fromkeys(self.layers, ALL))
        became = self.activities({})
        for number, (name, layer) in enumerate(self.layers.items(), start=1):
            for node, sigma in enumerate(layer["sigma"]):
                yield {
                    "layer": number,
                    "node": node,
                    "sigma_share": sigma / layer["sigma_init"],
                    "activity_before": was[name][node].item(),
                    "activity_after": became[name][node].item(),
                    "restored": self.restored(name, [node]),
                }


def _hear(heard: dict[str, Tensor], name: str, *given: Any) -> None:
    heard[name] = given[-1].relu().mean(0)


def record() -> dict[str, Any]:
    """All that is found."""
    prepared, states, matrix = taught()
    drops = [old - new for old, new in zip(matrix[-2], matrix[-1], strict=True)][:-1]
    lost = drops.index(max(drops))
    blame = Blame(prepared, states, lost)
    nodes = sorted(blame.nodes(), key=lambda each: each["restored"], reverse=True)[:SHOWN]
    nodes.sort(key=lambda each: each["layer"])
    return {
        "seed": SEED,
        "task": lost,
        "before": matrix[-2][lost],
        "after": matrix[-1][lost],
        "layers": [blame.restored(name, ALL) for name in blame.layers],
        "nodes": [{**each, **blame.outgoing(each["layer"], each["node"])} for each in nodes],
        "awake": blame.awake(nodes),
    }


def main() -> None:
    """Measure, keep the numbers beside this file, write the page."""
    torch.set_num_threads(1)
    found = record()
    RECORDS.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(), {"idle nodes": table(found)}))


def table(found: dict[str, Any]) -> str:
    """In Markdown: what the task comes to with which part put back, and the nodes to blame."""
    task = found["task"] + 1
    lines = [f"| the network | task {task}, % |", "|---|---|"]
    rows = [("before the last task", found["before"]), ("after it", found["after"])]
    rows += [
        (f"after it, layer {number} put back", share)
        for number, share in enumerate(found["layers"], start=1)
    ]
    rows.append(("before it, but the nodes below as they are after it", found["awake"]))
    lines += [f"| {what} | {100 * share:.1f} |" for what, share in rows]
    lines += [
        "",
        f"| the node | its σ / initial σ | its output for task {task} before and after | task "
        f"{task} if the node is put back, % | its weights to certain nodes, from their initial "
        f"values | task {task} if these weights are cut instead, % |",
        "|---|---|---|---|---|---|",
    ]
    for each in found["nodes"]:
        lines.append(
            f"| {each['node']} of layer {each['layer']} | {each['sigma_share']:.2f} "
            f"| {each['activity_before']:.2f}, {each['activity_after']:.2f} "
            f"| {100 * each['restored']:.1f} | {100 * each['moved']:.0f} % "
            f"| {100 * each['cut']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
