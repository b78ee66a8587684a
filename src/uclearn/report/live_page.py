"""The page on a model that is in use, from its journal: what was learned, rejected, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from uclearn.measures.capacity import (
    certain_share,
    filled_share,
    forecast,
    layers_of,
    outlook_words,
)
from uclearn.report.chart import Chart, Fit, Readout, accuracy_axis, captioned, draw, styled_line
from uclearn.report.html import Html, join, paragraph, section, table, tag
from uclearn.report.page import framed, link
from uclearn.report.words import count, percent, points

Line = Mapping[str, Any]


def live_page(name: str, lines: Sequence[Line], plotly: str) -> str:
    """The journal `lines` of the model called `name` as one HTML file."""
    updates = [line for line in lines if line["event"] == "update"]
    parts = {
        "decisions": ("Decisions", _decisions(updates)),
        "accuracy": ("Old tasks on their canaries", _accuracy(updates)),
        "room": ("Certain and free nodes", _room(updates)),
    }
    shown = {key: part for key, part in parts.items() if part[1]}
    links = [link(key, title) for key, (title, _) in shown.items()]
    rejected = sum(line["decision"] == "rejected" for line in updates)
    return framed(
        f"A model in use: {name}",
        f"{count(len(updates), 'update')} · {rejected} rejected",
        tag("ul", {}, *links, link("reading", "How to read it")),
        join(*(section(key, 2, title, body) for key, (title, body) in shown.items())),
        "glossary-live.html",
        plotly,
    )


def _decisions(updates: Sequence[Line]) -> Html:
    header = ["Update", "When", "Task", "Examples", "Canary", "Learned", "Decision"]
    rows = [
        [
            f"{line['number']}: {line['name']}",
            line["time"].replace("T", " ")[:16],
            line["task"],
            str(line["train"]),
            str(line["canary"]),
            percent(line["accuracy"]),
            line["decision"],
        ]
        for line in updates
    ]
    intro = paragraph(
        "Each update was learned by a copy of the model. Where an old task lost more than is "
        "tolerated, the copy was thrown away and the model stayed what it was, to the bit."
    )
    reasons = [
        paragraph(f"{line['number']}: {line['name']}, {line['decision']}. {line['reason']}")
        for line in updates
        if line["decision"] in ("rejected", "warned")
    ]
    made = table("Every update, oldest first", header, rows, words=[1, 2, 6])
    return join(intro, made, *reasons)


def _accuracy(updates: Sequence[Line]) -> Html:
    courses = _courses(updates)
    if not courses:
        return Html()
    rows = [
        [
            f"{line['number']}: {line['name']}",
            one["task"],
            str(one["examples"]),
            percent(one["before"]),
            f"{percent(one['after'])} ({percent(one['low'])} to {percent(one['high'])})",
            f"{points(one['drop'])} ({points(one['drop_low'])} to {points(one['drop_high'])})",
        ]
        for line in updates
        for one in line["compared"]
    ]
    header = ["Update", "Old task", "Canary", "Before", "After (interval)", "Drop in points"]
    ends = ", ".join(f"{task} {percent(ys[-1])}" for task, (_, ys) in courses.items())
    chart = Chart(
        data=[styled_line(k, task, *course) for k, (task, course) in enumerate(courses.items())],
        label=f"Line chart of each task's accuracy on its canary after each update: {ends}.",
        layout={
            "xaxis": {
                "title": {"text": "update"},
                "tickvals": [line["number"] for line in updates],
            },
            "yaxis": accuracy_axis("accuracy on the canary"),
            "showlegend": True,
        },
        height=360,
        fit=Fit(percent=True),
        readout=Readout("after update "),
    )
    numbers = table("Old tasks before and after each update", header, rows, words=[1])
    words = (
        "Rejected updates left no trace in the model and have no point here; what they would have "
        "cost stands in the table."
    )
    return join(captioned(words, draw(chart)), numbers if rows else Html())


Course = tuple[list[int], list[float]]


def _courses(updates: Sequence[Line]) -> dict[str, Course]:
    """By task the numbers of updates, and its accuracy on the canary after them."""
    found: dict[str, Course] = {}
    for line in updates:
        if line["decision"] == "rejected":
            continue
        for one in line["compared"]:
            x, y = found.setdefault(one["task"], ([], []))
            x.append(line["number"])
            y.append(one["after"])
        if line["canary"] and line["accuracy"] is not None and line["task"] not in found:
            found[line["task"]] = ([line["number"]], [line["accuracy"]])
    return found


def _room(updates: Sequence[Line]) -> Html:
    kept = [line for line in updates if line["decision"] != "rejected" and line["nodes"]]
    events = [{"event": "nodes", "task": k, "layers": u["nodes"]} for k, u in enumerate(kept)]
    layers = layers_of(events)
    if not layers:
        return Html()
    header = ["Layer", *(f"after {line['name']}" for line in kept)]
    rows = [[layer.name, *map(percent, certain_share([layer]))] for layer in layers]
    whole = certain_share(layers)
    rows.append(["whole network", *map(percent, whole)])
    words = f"{percent(whole[-1], 0)} of all nodes are certain. "
    words += outlook_words(forecast(filled_share(layers)), len(whole))
    return join(paragraph(words), table("Share of nodes that are certain", header, rows))
