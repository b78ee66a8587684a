"""The page: a frame around whatever is shown, and the report on runs in it, which begins with the
outcome in plain words."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from string import Template

from uclearn.errors import UclearnError
from uclearn.measures.capacity import forecast, outlook_words
from uclearn.measures.statistics import Estimate
from uclearn.report.chart import slug, swatch
from uclearn.report.groups import (
    COLORS,
    Collection,
    Comparison,
    Group,
    check_labels,
    comparisons,
    relabelled,
)
from uclearn.report.html import Html, join, marked, paragraph, section, tag
from uclearn.report.labels import benchmark_name, in_sentence
from uclearn.report.legend import legend
from uclearn.report.rewards import (
    alone_of,
    final_returns,
    final_rewards,
    papers_of,
    returns_headline,
    rewards_headline,
)
from uclearn.report.sections.accuracy import ablations_figure, average_figure, tasks_figure
from uclearn.report.sections.explored import explored
from uclearn.report.sections.forgetting import matrix_figure, plane_figure
from uclearn.report.sections.rewards import rewards_figures
from uclearn.report.sections.tables import cost, every_run, paper_and_ours, settings_used
from uclearn.report.sections.uncertainty import (
    mean_certain_share,
    mean_filled_share,
    node_histories,
    uncertainty,
)
from uclearn.report.words import count, listing, percent, points, signed

_SCRIPTS = ("page.js", "choose.js", "look.js", "tables.js", "pdf.js", "save.js")
_MOST_BARS = 12
_MOST_TASKS = 4
"""Tasks of reinforcement learning whose returns are bars in the summary."""
_MOST_IN_A_SENTENCE = 4
_PLUS_MINUS = "±: half the 95 % interval of a mean over seeds, here and everywhere on this page."

_PARTS: tuple[tuple[str, str, Callable[[Comparison], Html], bool], ...] = (
    # what completes its address, title in the contents, what makes it, whether it needs accuracies
    ("numbers", "Results", paper_and_ours, True),
    ("explored", "Which settings matter", explored, True),
    ("returns", "Returns and rewards", rewards_figures, False),
    ("average", "Average accuracy", average_figure, True),
    ("tasks", "Task by task", tasks_figure, True),
    ("matrix", "Accuracy matrices", matrix_figure, True),
    ("plane", "Learning and forgetting", plane_figure, True),
    ("uncertainty", "Certain and free nodes", uncertainty, False),
    ("ablations", "Ablations", ablations_figure, True),
    ("cost", "Parameters, time, memory", cost, False),
    ("settings", "Settings", settings_used, False),
)


def page(found: Collection, plotly: str, given: Mapping[str, str] | None = None) -> str:
    """The report on all runs of `found`, with `plotly` as its drawing library; `given` are names
    for labels."""
    made = comparisons(found.complete)
    check_labels(made, given or ())
    compared = relabelled(made, given or {})
    parts = [_parts(comparison) for comparison in compared]
    bodies = map(_comparison, compared, parts)
    return framed(
        _title(compared),
        _subtitle(found, compared),
        _contents(compared, parts),
        join(_summary(compared), *bodies, every_run(found)),
        "glossary.html",
        plotly,
    )


def framed(
    title: str, subtitle: str, contents: Html, main: Html, glossary: str, plotly: str
) -> str:
    """One HTML file that needs nothing but itself; `glossary` names the asset that explains what is
    shown, `plotly` is the text of its drawing library."""
    return Template(_asset("page.html")).substitute(
        title=join(title),
        subtitle=join(subtitle),
        style=_asset("page.css"),
        contents=contents,
        main=main,
        glossary=_asset(glossary),
        plotly=plotly,
        script="\n".join(map(_asset, _SCRIPTS)),
    )


def _title(compared: Sequence[Comparison]) -> str:
    names = list(dict.fromkeys(benchmark_name(comparison.benchmark) for comparison in compared))
    return f"Continual learning: {listing(names)}" if names else "Continual learning: no result yet"


def _subtitle(found: Collection, compared: Sequence[Comparison]) -> str:
    groups = [group for comparison in compared for group in comparison.groups]
    said = {s.versions.get("uclearn", "") for group in groups for s in group.summaries}
    versions = sorted(said - {""})
    parts = [
        count(len(found.complete), "complete run"),
        count(len(groups), "group") + " of equal settings",
        f"{len(found.incomplete)} not complete" if found.incomplete else "",
        f"{len(found.unreadable)} damaged and left out" if found.unreadable else "",
        f"uclearn {listing(versions)}" if versions else "",
    ]
    return " · ".join(part for part in parts if part)


def _summary(compared: Sequence[Comparison]) -> Html:
    if not compared:
        body = paragraph("No run is complete yet. What there is stands below.")
    else:
        cards = tag("div", {"class": "cards"}, *(card(comparison) for comparison in compared))
        several = any(comparison.has_bands for comparison in compared)
        body = join(cards, paragraph(_PLUS_MINUS) if several else Html())
    return section("summary", 2, "Summary", body)


def card(comparison: Comparison) -> Html:
    """What each method keeps, how sure that is, and where the network is heading."""
    heading = tag("a", {"href": f"#{slug(comparison)}"}, comparison.name)
    return tag(
        "article",
        {"class": "card"},
        tag("h3", {}, marked(heading, comparison.mark)),
        tag("p", {"class": "lead"}, headline(comparison)),
        *([_bars(comparison)] if comparison.classifies else _reward_bars(comparison)),
        paragraph(" ".join([certainty(comparison), *_outlook(comparison)])),
        *([] if comparison.classifies else [paragraph(rewards_headline(comparison))]),
    )


def headline(comparison: Comparison) -> str:
    """What each method keeps: "UCL keeps 74 %, fine-tuning 51 %."."""
    groups = _in_a_sentence(comparison)
    if not groups:
        return returns_headline(comparison) or "These runs hold no accuracies."
    means = [group.accuracy.mean for group in groups if group.accuracy is not None]
    rounded = [percent(mean, 0) for mean in means]
    digits = 0 if len(set(rounded)) == len(rounded) else 1
    shown = [
        f"{in_sentence(group.label)} {percent(mean, digits)}"
        for group, mean in zip(groups, means, strict=True)
    ]
    (name, number), others = shown[0].rsplit(" ", 1), shown[1:]
    verb = "keeps" if comparison.tasks > 1 else "reaches"
    sentence = ", ".join([f"{name} {verb} {number}", *others])
    return f"{sentence[0].upper()}{sentence[1:]}."


def _in_a_sentence(comparison: Comparison) -> list[Group]:
    """All if they are few; otherwise the best, the reference, its best rival and fine-tuning."""
    groups = [group for group in comparison.compared if group.accuracy is not None]
    if len(groups) <= _MOST_IN_A_SENTENCE:
        return groups
    rivals = [g for g in groups if g is not comparison.reference and g.method != "joint"]
    plain = [group for group in groups if group.method == "finetuning"]
    chosen = [groups[0], comparison.reference, *rivals[:1], *plain[:1]]
    return [group for group in groups if group in chosen]


def certainty(comparison: Comparison) -> str:
    """How far the difference to the next best is beyond chance."""
    first = comparison.reference
    rivals = [g for g in comparison.compared if g is not first and g.accuracy is not None]
    seeds = count(len(first.runs), "seed")
    if first.accuracy is None or not rivals:
        return f"Measured with {seeds}."
    rival = next((group for group in rivals if group.method != "joint"), rivals[0])
    difference = first.against(rival)
    name = in_sentence(rival.label)
    if difference is None:
        return f"{first.label} and {name} share no seed, so they cannot be compared in pairs."
    ahead = "ahead of" if difference.mean >= 0 else "behind"
    gap = points(abs(difference.mean)).lstrip("+")
    if difference.ends is None:
        return (
            f"{first.label} is {gap} points {ahead} {name}, with one seed: nothing says yet how "
            "much of that is chance."
        )
    ends = listing([points(end) for end in difference.ends])
    verdict = "" if difference.excludes_zero else ", so this may be chance"
    return (
        f"{first.label} is {gap} points {ahead} {name}: with 95 % confidence the difference lies "
        f"between {ends} ({count(difference.count, 'seed')}, paired){verdict}."
    )


def _outlook(comparison: Comparison) -> list[str]:
    histories = list(node_histories(comparison.reference).values())
    if not histories:
        return []
    shares = mean_certain_share(histories)
    outlook = forecast(mean_filled_share(histories))
    return [
        f"{percent(shares[-1], 0)} of the nodes of {in_sentence(comparison.reference.label)} are "
        f"certain. {outlook_words(outlook, len(shares))}"
    ]


def _bars(comparison: Comparison) -> Html:
    """All if they are few; of many the best of each method."""
    groups = [group for group in comparison.compared if group.accuracy is not None]
    shown = groups
    if len(groups) > _MOST_BARS:
        shown = [own[0] for own in comparison.by_method.values() if own[0].accuracy][:_MOST_BARS]
    bars = [_bar(group, group.accuracy) for group in shown if group.accuracy]
    if left_out := len(groups) - len(shown):
        words = f"the best of each method; {left_out} more below"
        bars.append(tag("li", {"class": "more"}, words))
    return tag("ul", {"class": "bars"}, *bars)


def _bar(group: Group, found: Estimate) -> Html:
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    return _one_bar(group, found.mean, f"{percent(found.mean)}{spread}")


def _one_bar(group: Group, share: float, value: str) -> Html:
    style = f"--share:{100 * share:.2f}%;--color:var(--series-{group.style % COLORS})"
    return tag(
        "li",
        {"style": style},
        tag("span", {"class": "name"}, swatch(group), group.label),
        tag("span", {"class": "value"}, value),
        tag("span", {"class": "bar", "aria-hidden": "true"}),
    )


def _reward_bars(comparison: Comparison) -> list[Html]:
    """What was earned at the end: raw returns of each task, then their sums on a common scale."""
    made = []
    for name, found in list(final_returns(comparison).items())[:_MOST_TASKS]:
        bars = [
            (group, earned, f"{signed(earned.mean, 0)}{_half(earned, 0)}")
            for group, earned in found
        ]
        made.append(_scaled_bars(f"{name}: return", bars))
    if comparison.tasks > _MOST_TASKS:
        made.append(paragraph(f"and {comparison.tasks - _MOST_TASKS} more tasks below"))
    scale = alone_of(comparison)
    sums = final_rewards(comparison, scale or papers_of(comparison))
    known = [(g, e, f"{signed(e.mean, 2)}{_half(e, 2)}") for g, e in sums if e is not None]
    title = "Sum of rewards" + ("" if scale else ", normalised in the paper’s way")
    if known and comparison.tasks > 1:
        known.sort(key=lambda bar: -bar[1].mean)
        made.append(_scaled_bars(title, known))
    below = any(e.mean < 0 for found in final_returns(comparison).values() for _, e in found)
    note = [paragraph("Bars begin at 0, or at the lowest where that is negative.")] if below else []
    return [tag("div", {"class": "tasks"}, *made), *note] if made else []


def _half(found: Estimate, digits: int) -> str:
    return "" if found.half_width is None else f" ± {found.half_width:,.{digits}f}"


def _scaled_bars(title: str, bars: Sequence[tuple[Group, Estimate, str]]) -> Html:
    """Bars from 0, or from the lowest where that is below, to the highest."""
    means = [found.mean for _, found, _ in bars]
    low = min(0.0, *means)
    reach = max(*means, 0.0) - low or 1.0
    entries = [
        _one_bar(group, (found.mean - low) / reach, value)
        for group, found, value in bars[:_MOST_BARS]
    ]
    return tag("div", {}, tag("h4", {}, title), tag("ul", {"class": "bars"}, *entries))


def _parts(comparison: Comparison) -> dict[tuple[str, str], Html]:
    """What there is to show, by the name that completes its address and its title."""
    made = {
        (name, title): make(comparison)
        for name, title, make, needs_accuracy in _PARTS
        if comparison.classifies or not needs_accuracy
    }
    return {part: body for part, body in made.items() if body}


def _comparison(comparison: Comparison, parts: Mapping[tuple[str, str], Html]) -> Html:
    shared = [tag("p", {"class": "shared"}, comparison.shared)] if comparison.shared else []
    children = [*shared, legend(comparison, comparison.compared), *parts.values()]
    whole = section(slug(comparison), 2, comparison.name, *children, note=comparison.mark)
    return tag("div", {"class": "study"}, whole)


def _contents(
    compared: Sequence[Comparison], parts: Sequence[Mapping[tuple[str, str], Html]]
) -> Html:
    entries = [link("summary", "Summary")]
    for comparison, own in zip(compared, parts, strict=True):
        name = f"{comparison.name} ({comparison.mark})" if comparison.mark else comparison.name
        inner = [link(f"{slug(comparison)}-{part}", title) for part, title in own]
        entries.append(link(slug(comparison), name, tag("ul", {}, *inner)))
    entries += [link("runs", "Runs"), link("reading", "How to read it")]
    return tag("ul", {}, *entries)


def link(identity: str, text: str, *inner: Html) -> Html:
    """An entry of the contents, with those below it."""
    return tag("li", {}, tag("a", {"href": f"#{identity}"}, text), *inner)


def _asset(name: str) -> str:
    return (files("uclearn.report") / "assets" / name).read_text(encoding="utf-8")


class MissingPlotlyError(UclearnError, ImportError):
    """The extra that the report needs is not installed."""


def plotly_javascript() -> str:
    """The text of plotly.js, to be put into the page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingPlotlyError(
            "The report needs the package plotly, which is not installed. Install it with: "
            "pip install 'uclearn[report]'"
        ) from error
    return str(get_plotlyjs())
