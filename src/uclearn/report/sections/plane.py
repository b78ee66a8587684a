"""Forgetting against learning accuracy: what was traded for what."""

from collections.abc import Sequence

from uclearn.measures.accuracy import mean
from uclearn.report.chart import PERCENT_TICKS, Chart, Trace, color, draw, plain, symbol
from uclearn.report.figure import figure
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, table
from uclearn.report.labels import in_sentence
from uclearn.report.words import count, listing, percent

_MOST_LETTERS = 21


def plane_figure(study: Study) -> Html:
    """Each group a point, each of its seeds a small one; nothing for a single task."""
    groups = [group for group in study.compared if group.forgettings and group.learning_accuracies]
    if not groups or study.tasks < 2:
        return Html()
    rows = [
        [
            group.label,
            percent(mean(group.learning_accuracies.values())),
            percent(mean(group.forgettings.values())),
        ]
        for group in groups
    ]
    words = [f"{in_sentence(name)} learns {learn} and forgets {lose}" for name, learn, lose in rows]
    chart = Chart(
        data=[trace for group in groups for trace in _points(study, group, _side(group, groups))],
        label=f"Scatter chart of forgetting against learning accuracy: {listing(words)}.",
        layout={
            "xaxis": {"title": {"text": "learning accuracy"}, "tickformat": PERCENT_TICKS},
            "yaxis": {
                "title": {"text": "forgetting (less is up)"},
                "tickformat": PERCENT_TICKS,
                "autorange": "reversed",
            },
        },
        height=380,
    )
    return figure(
        study,
        "plane",
        "Learning and forgetting",
        draw(chart),
        "Learning accuracy: how well each task was known right after it was learned. Forgetting: "
        "how far the earlier tasks fell from their best. Best is the upper right corner. Large: "
        "mean over seeds; small: each seed.",
        groups=groups,
        numbers=table(
            "Learning accuracy and forgetting, means over seeds",
            ["Method", "Learning accuracy", "Forgetting"],
            rows,
        ),
        saves=True,
    )


def _side(group: Group, groups: Sequence[Group]) -> str:
    """Where a point's name stands: below if the nearest other point is above, so as not to meet."""
    learns = [mean(one.learning_accuracies.values()) or 0.0 for one in groups]
    forgets = [mean(one.forgettings.values()) or 0.0 for one in groups]
    width, height = (max(max(ends) - min(ends), 1e-9) for ends in (learns, forgets))
    places = [complex(x / width, -y / height) for x, y in zip(learns, forgets, strict=True)]
    here = places[groups.index(group)]
    others = [place - here for place, one in zip(places, groups, strict=True) if one is not group]
    nearest = min(others, key=abs, default=0j)
    return "bottom center" if nearest.imag > 0 else "top center"


def _short(label: str) -> str:
    """A name that fits beside a point.

    >>> _short("UCL (beta = 0.03, lr_sigma = 0.01, 2 more)")
    'UCL (beta = 0.03, lr…'
    """
    return label if len(label) <= _MOST_LETTERS else f"{label[: _MOST_LETTERS - 1]}…"


def _points(study: Study, group: Group, side: str) -> list[Trace]:
    seeds = [seed for seed in group.forgettings if seed in group.learning_accuracies]
    marker = {"color": color(group.style), "symbol": symbol(group.style)}
    name = f"<b>{plain(group.label)}</b>"
    values = "learns %{x:.1%}<br>forgets %{y:.1%}<extra></extra>"
    common: Trace = {
        "type": "scatter",
        "meta": study.groups.index(group),
        "name": plain(group.label),
    }
    each = common | {
        "mode": "markers",
        "x": [group.learning_accuracies[seed] for seed in seeds],
        "y": [group.forgettings[seed] for seed in seeds],
        "text": [f"seed {seed}" for seed in seeds],
        "marker": marker | {"size": 7, "opacity": 0.45},
        "hovertemplate": f"{name}, %{{text}}<br>{values}",
        "showlegend": False,
    }
    centre = common | {
        "mode": "markers+text",
        "x": [mean(each["x"])],
        "y": [mean(each["y"])],
        "text": [plain(_short(group.label))],
        "textposition": side,
        "textfont": {"color": color(group.style)},
        "cliponaxis": False,
        "marker": marker | {"size": 14},
        "hovertemplate": f"{name}, mean of {count(len(seeds), 'seed')}<br>{values}",
    }
    return [each, centre] if len(seeds) > 1 else [centre]
