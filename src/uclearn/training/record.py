"""A session of a program of one's own, recorded as `uclearn compare` records its runs: the same
folder, which `uclearn runs`, `report` and `watch` read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uclearn.measures.accuracy import average_accuracy, forgetting, learning_accuracy
from uclearn.methods.contract import Method
from uclearn.methods.parts.wrapper import Wrapper
from uclearn.methods.registry import METHODS, WRAPPERS
from uclearn.storage.recorder import RunRecorder, environment, open_run, peak_memory
from uclearn.storage.records import Summary, read_run
from uclearn.tasks import TaskSequence
from uclearn.tasks.own.function import digest_of
from uclearn.training.nodes import node_digest, parameter_count
from uclearn.training.plan import Plan

if TYPE_CHECKING:
    from uclearn.training.session import Outcome


def begin(place: Path, method: Method, tasks: TaskSequence, plan: Plan) -> RunRecorder:
    """The record of a session below `place`: of the same method, settings, plan and tasks the same
    one, which then goes on or is complete."""
    config = description(method, tasks, plan)
    varying = {"seed": None, "plan": {**config["plan"], "seed": None}}
    text = json.dumps({**config, **varying}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    folder = place / config["benchmark"] / f"{config['method']}-{digest}" / f"seed-{plan.seed}"
    return open_run(folder, config, "learning")


def description(method: Method, tasks: TaskSequence, plan: Plan) -> dict[str, Any]:
    """What a session is made from, as far as a program of one's own lets it be seen."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", tasks.name).strip("-") or "own"
    planned = asdict(plan)
    del planned["checkpoint_seconds"]  # changes no result
    return {
        "benchmark": name,
        "method": name_of(method),
        "seed": plan.seed,
        "program": "one's own",
        "data": {"fingerprint": digest_of(tasks)},
        "network": {
            "parameters": sum(p.numel() for p in method.model.parameters()),
            "layers": hashlib.sha256(repr(method.model).encode()).hexdigest()[:8],
        },
        "plan": planned,
        "settings": {part: _settings(each) for part, each in _parts(method)},
    }


def finish(recorder: RunRecorder, method: Method, tasks: TaskSequence, outcome: Outcome) -> None:
    """Write the summary, if there is none yet."""
    if recorder.summary is not None:
        return
    rows = outcome.accuracy_matrix
    known = [value for row in rows for value in row if not math.isnan(value)]
    shares = all(0 <= value <= 1 for value in known)
    run = read_run(recorder.folder)
    nodes = node_digest(run.events)
    made = environment()
    recorder.finish(
        Summary(
            config=run.config,
            accuracy_matrix=rows if shares else (),
            average_accuracy=average_accuracy(rows) if shares else None,
            forgetting=forgetting(rows) if shares and len(rows) > 1 else None,
            seconds=outcome.seconds,
            peak_memory=peak_memory(),
            parameters_kept=parameter_count(method),
            versions=made["versions"],
            git_commit=made["git_commit"],
            machine=made["machine"],
            extra={
                "task_names": [task.name for task in tasks],
                **({"learning_accuracy": learning_accuracy(rows)} if shares else {"scores": rows}),
                **({"nodes": nodes} if nodes else {}),
            },
        )
    )


def name_of(method: Method) -> str:
    """As the registry calls it, wrappers behind a plus; else the name of its class."""
    return "+".join(part for part, _ in _parts(method))


def _parts(method: Method) -> list[tuple[str, Method]]:
    known = (registry.sound()[0].items() for registry in (METHODS, WRAPPERS))
    names = {kind: name for items in known for name, kind in items}
    found = [(names.get(type(method), type(method).__name__.lower()), method)]
    while isinstance(method, Wrapper):
        method = method.method
        found.insert(0, (names.get(type(method), type(method).__name__.lower()), method))
    return found


def _settings(method: Method) -> Mapping[str, Any]:
    """Whatever it was told that JSON can hold."""
    plain = (bool, int, float, str, type(None))
    return {
        key: value
        for key, value in vars(method).items()
        if not key.startswith("_") and key != "training" and isinstance(value, plain)
    }
