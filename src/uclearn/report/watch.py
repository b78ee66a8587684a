"""Runs as they grow, in a page on this machine alone: what `uclearn watch` serves.

The page asks for the runs every other second; they are read from their folders, which is all that
whoever makes them writes. Nothing is loaded from elsewhere, and nobody else can connect.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError, UclearnError
from uclearn.measures.capacity import certain_share, layers_of
from uclearn.report.labels import benchmark_name, method_name
from uclearn.report.settings import benchmark_of, epochs_of, method_of, seed_of, source_of
from uclearn.storage.records import CONFIG_NAME, EVENTS_NAME, Run, find_runs, read_run

HOST = "127.0.0.1"
_LONGEST = 400
"""Points of a curve that are sent."""
_IDLE = 120.0
"""Seconds without news after which an open run counts as standing still."""

Seen = dict[Path, tuple[float, float]]
"""By run: when it was first looked at, and how much of it was done then."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """What answers on `port` of this machine; 0: any port that is free."""
    find_runs(folder)  # or an error, before anybody opens a page
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Answer, folder, {}))
    except OSError as error:
        raise SettingError(
            f"`--port` {port} cannot be used ({error.strerror}). Choose another, or 0 for any."
        ) from error


class _Answer(BaseHTTPRequestHandler):
    def __init__(self, folder: Path, seen: Seen, *others: Any) -> None:
        self.folder, self.seen = folder, seen
        super().__init__(*others)

    def do_GET(self) -> None:
        """The page, or the runs."""
        # a page elsewhere that gives its own name this address is not answered
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (HOST, "localhost"):
            self.send_error(403)
        elif self.path == "/":
            self._send("text/html", page().encode())
        elif self.path == "/runs.json":
            self._send("application/json", json.dumps(state(self.folder, self.seen)).encode())
        else:
            self.send_error(404)

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        allowed = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
        self.send_header("Content-Security-Policy", f"{allowed}; connect-src 'self'")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """A line for every two seconds would be noise."""


def page() -> str:
    """The page, without any run in it."""
    return files("uclearn.report").joinpath("assets/watch.html").read_text(encoding="utf-8")


def state(folder: Path, seen: Seen) -> dict[str, Any]:
    """All runs below `folder`, the newest news first; one that cannot be read says why."""
    runs = []
    for place in find_runs(folder):
        name = str(place.relative_to(folder)) if place != folder else place.name
        try:
            runs.append({"folder": name, **_told(read_run(place), seen)})
        except UclearnError as error:
            runs.append({"folder": name, "state": "damaged", "problem": str(error), "news": 0})
    return {"folder": str(folder), "runs": sorted(runs, key=lambda run: -run["news"])}


def _told(run: Run, seen: Seen) -> dict[str, Any]:
    epochs = [event for event in run.events if event["event"] == "epoch"]
    judged = [event for event in run.events if event["event"] == "evaluation"]
    news = max(
        (run.folder / name).stat().st_mtime
        for name in (CONFIG_NAME, EVENTS_NAME, "summary.json")
        if (run.folder / name).exists()
    )
    share = 1.0 if run.summary is not None else share_done(run.config, epochs, judged)
    growing = time.time() - news < _IDLE
    layers = layers_of(run.events)
    return {
        "benchmark": benchmark_name(benchmark_of(run.config)),
        "method": method_name(method_of(run.config)),
        "seed": seed_of(run.config),
        "state": "complete" if run.summary is not None else "growing" if growing else "idle",
        "share": share,
        "left": None if run.summary is not None else _seconds_left(run.folder, share, seen),
        "losses": _thinned([event.get("loss") for event in epochs]),
        "scores": [_mean(event) for event in judged],
        "certain": certain_share(layers) if layers else None,
        "news": news,
    }


def share_done(
    config: Mapping[str, Any],
    epochs: Sequence[Mapping[str, Any]],
    judged: Sequence[Mapping[str, Any]],
) -> float | None:
    """How much of a run is over, by its epochs; None where nobody knows how many there will be.

    >>> config = {"tasks": 2, "plan": {"epochs": 10}}
    >>> share_done(config, [{"task": 0, "epoch": 4}], [])
    0.25
    """
    own = len(source_of(config).get("tasks") or ())
    tasks = config.get("tasks") or own or (len(judged[0]["scores"]) if judged else 0)
    planned = epochs_of(config)
    if not tasks or not planned:
        return None
    last = epochs[-1] if epochs else {"task": 0, "epoch": -1}
    within = max(last["task"] + (last["epoch"] + 1) / planned, len(judged))
    return float(min(within / tasks, 1.0))


def _seconds_left(folder: Path, share: float | None, seen: Seen) -> float | None:
    """At the pace since it was first looked at; before that shows, since it was begun."""
    if share is None:
        return None
    now = time.time()
    since, then = seen.setdefault(folder, (now, share))
    if share <= then:
        since, then = (folder / CONFIG_NAME).stat().st_mtime, 0.0
    return (now - since) * (1 - share) / (share - then) if share > then else None


def _mean(event: Mapping[str, Any]) -> float | None:
    known = [score for score in event["scores"][: event["task"] + 1] if score is not None]
    return sum(known) / len(known) if known else None


def _thinned(values: Sequence[float | None]) -> list[float | None]:
    step = len(values) // _LONGEST + 1
    return list(values[::step])
