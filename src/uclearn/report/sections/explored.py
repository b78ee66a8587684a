"""What a sweep or a tuning found: accuracy over two settings as a heat map, all settings as
parallel coordinates, what each of them matters, and who is level with the best."""

import itertools

from uclearn.report.chart import (
    Chart,
    Trace,
    captioned,
    color,
    draw,
    in_words,
    panels,
    plain,
    scale_bar,
    section_of,
)
from uclearn.report.explored import Search, Setting, searches
from uclearn.report.groups import Comparison
from uclearn.report.html import Html, details, join, paragraph, table, tag
from uclearn.report.labels import method_name
from uclearn.report.words import UNKNOWN, count, listing, percent

_MOST_MAPS = 3
_MOST_NAMED = 6
_TIE = "★"


def explored(comparison: Comparison) -> Html:
    """A part for each method whose settings were searched; nothing if none was."""
    found = searches(comparison)
    if not found:
        return Html()
    found.sort(key=lambda search: comparison.reference not in search.groups)
    first, *others = found
    closed = [
        details(f"The same for {method_name(one.groups[0].method)}", _one(comparison, one))
        for one in others
    ]
    name = method_name(first.groups[0].method)
    title = f"Which settings matter: {name}, {len(first.groups)} tried"
    return section_of(comparison, "explored", title, _one(comparison, first), *closed)


def _one(comparison: Comparison, search: Search) -> Html:
    return join(
        paragraph(_verdict(search)), _maps(search), _courses(comparison, search), _shares(search)
    )


def _verdict(search: Search) -> str:
    """Who is best; several that are level are not called one."""
    best = search.groups[0]
    level = [g.label for g, is_level in zip(search.groups, search.level, strict=True) if is_level]
    value = percent(search.values[0])
    if len(level) == 1:
        return f"Best: {best.label} ({value}); no other is level with it ({search.level_words})."
    left = len(level) - _MOST_NAMED
    named = [*level[:_MOST_NAMED], f"{left} more"] if left > 0 else level
    return (
        f"{len(level)} are level at the top ({value}; {search.level_words}), so none is the best: "
        f"{'; '.join(named)}."
    )


def _maps(search: Search) -> Html:
    """Of the pairs of settings those that tell most: important, and tried in many combinations."""
    pairs = list(itertools.combinations(search.settings, 2))
    if not pairs:
        return Html()

    def tells(pair: tuple[tuple[Setting, float], tuple[Setting, float]]) -> float:
        (x, for_x), (y, for_y) = pair
        tried = len(set(zip(x.of, y.of, strict=True))) / (len(x.levels) * len(y.levels))
        return tried * (0.05 + for_x + for_y)

    pairs.sort(key=tells, reverse=True)
    low, high = min(search.values), max(search.values)
    charts = [_map(search, x, y, low, high) for (x, _), (y, _) in pairs[:_MOST_MAPS]]
    return captioned(
        "The best accuracy with each two settings, whatever the others are. "
        f"{_TIE}: level with the best of all. Blank: not tried.",
        scale_bar("accuracy", percent(low), percent(high)),
        panels(charts),
    )


def _map(search: Search, x: Setting, y: Setting, low: float, high: float) -> Chart:
    cells: list[list[float | None]] = [[None] * len(x.levels) for _ in y.levels]
    words = [[""] * len(x.levels) for _ in y.levels]
    hover = [["not tried"] * len(x.levels) for _ in y.levels]
    for group, value, is_level, i, j in zip(
        search.groups, search.values, search.level, y.of, x.of, strict=True
    ):
        if cells[i][j] is None:  # the best comes first
            cells[i][j] = value
            words[i][j] = f"{100 * value:.1f}{_TIE if is_level else ''}"
            hover[i][j] = f"{plain(group.label)}: <b>{percent(value)}</b>"
    trace: Trace = {
        "type": "heatmap",
        "x": list(range(len(x.levels))),
        "y": list(range(len(y.levels))),
        "z": cells,
        "zmin": low,
        "zmax": max(high, low + 1e-6),
        "colorscale": [[k / 4, f"@accuracy-{k}"] for k in range(5)],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "text": words,
        "texttemplate": "%{text}",
        "textfont": {"size": 10},
        "customdata": hover,
        "hovertemplate": "%{customdata}<extra></extra>",
    }

    def axis(setting: Setting) -> dict[str, object]:
        ticks = list(range(len(setting.levels)))
        return {
            "title": {"text": setting.name},
            "tickvals": ticks,
            "ticktext": list(setting.levels),
            "showgrid": False,
            "range": [-0.5, len(ticks) - 0.5],
        }

    return Chart(
        data=[trace],
        label=f"Heat map of accuracy over {x.name} and {y.name}, from {percent(low)} to "
        f"{percent(high)}.",
        layout={"xaxis": axis(x), "yaxis": axis(y), "margin": {"l": 52, "r": 8, "t": 4, "b": 44}},
        height=max(220, 34 * len(y.levels) + 90),
        title=f"{x.name} and {y.name}",
    )


def _courses(comparison: Comparison, search: Search) -> Html:
    """Parallel coordinates: an axis for each setting, the last for accuracy."""
    settings = [setting for setting, _ in search.settings]
    if len(settings) < 2:
        return Html()
    low, high = min(search.values), max(search.values)
    traces = []
    order = sorted(range(len(search.groups)), key=lambda k: (search.level[k], search.values[k]))
    for k in order:  # the best last, so that they lie on top
        group, is_level = search.groups[k], search.level[k]
        heights = [_height(one.of[k], len(one.levels)) for one in settings]
        end = (search.values[k] - low) / (high - low or 1)
        ink = color(group.style) if is_level else "@muted/0.4"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(group.label),
                "meta": comparison.number(group),
                "x": list(range(len(settings) + 1)),
                "y": [*heights, end],
                "line": {"color": ink, "width": 2.5 if is_level else 1.2},
                "hovertemplate": f"{plain(group.label)}: <b>{percent(search.values[k])}</b>"
                "<extra></extra>",
            }
        )
    ends = [(len(settings), 0.0, percent(low)), (len(settings), 1.0, percent(high))]
    named = [
        (k, _height(number, len(one.levels)), words)
        for k, one in enumerate(settings)
        for number, words in enumerate(one.levels)
    ]
    level = [g.label for g, is_level in zip(search.groups, search.level, strict=True) if is_level]
    chart = Chart(
        data=traces,
        label=f"Parallel coordinates of {count(len(settings), 'setting')} and the accuracy. Level "
        f"with the best: {in_words(level)}.",
        layout={
            "xaxis": {
                "tickvals": list(range(len(settings) + 1)),
                "ticktext": [*(one.name for one in settings), "accuracy"],
                "range": [-0.15, len(settings) + 0.35],
                "tickangle": 0,
            },
            "yaxis": {"visible": False, "range": [-0.06, 1.06]},
            "annotations": [_written(*one) for one in [*named, *ends]],
            "margin": {"l": 8, "r": 8, "t": 8, "b": 36},
        },
        height=300,
    )
    return captioned(
        "Each line is one choice of settings, the most important setting first, and ends at its "
        "accuracy. In colour: level with the best.",
        draw(chart),
    )


def _height(number: int, of: int) -> float:
    return number / (of - 1) if of > 1 else 0.5


def _written(x: float, y: float, words: str) -> dict[str, object]:
    return {
        "x": x,
        "y": y,
        "text": plain(words),
        "showarrow": False,
        "xanchor": "left",
        "xshift": 4,
        "bgcolor": "@surface/0.8",
        "font": {"size": 11, "color": "@ink"},
    }


def _shares(search: Search) -> Html:
    rows = []
    for setting, share in search.settings:
        bar = tag(
            "span",
            {"class": "cell-bar", "style": f"--share:{100 * share:.1f}%"},
            percent(share, 0),
        )
        rows.append([setting.name, bar, _best_levels(search, setting), f"{len(setting.levels)}"])
    return join(
        table(
            "What each setting matters",
            ["Setting", "Importance", "In those level with the best", "Values tried"],
            rows,
            words=[2],
        ),
        paragraph(
            "Importance: the share of the differences in accuracy that goes with this setting "
            "alone, beyond what chance would give (epsilon squared). What only matters together "
            "with another setting is in no share; the heat maps show it."
        ),
    )


def _best_levels(search: Search, setting: Setting) -> str:
    pairs = zip(setting.of, search.level, strict=True)
    own = sorted({number for number, is_level in pairs if is_level})
    if len(own) == len(setting.levels):
        return "any"
    return listing([setting.levels[number] for number in own]) or UNKNOWN
