"""The page: a frame around whatever is shown, and the report on runs in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from uclearn.errors import UclearnError
from uclearn.report.chart import legend, slug
from uclearn.report.groups import Collection, Comparison, comparisons
from uclearn.report.html import Html, join, paragraph, section, tag
from uclearn.report.labels import benchmark_name
from uclearn.report.sections.accuracy import ablations_figure, average_figure, tasks_figure
from uclearn.report.sections.forgetting import matrix_figure, plane_figure
from uclearn.report.sections.rewards import rewards_figures
from uclearn.report.sections.summary import card
from uclearn.report.sections.tables import cost, every_run, paper_and_ours, settings_used
from uclearn.report.sections.uncertainty import uncertainty
from uclearn.report.words import count, listing


@dataclass(frozen=True)
class Part:
    """A part of a comparison: `name` completes its address, `title` stands in the contents."""

    name: str
    title: str
    body: Html


_PARTS: tuple[tuple[str, str, Callable[[Comparison], Html], bool], ...] = (
    # name, title, what makes it, whether it needs accuracies
    ("numbers", "Paper and ours", paper_and_ours, True),
    ("cumulative", "Rewards", rewards_figures, False),
    ("average", "Average accuracy", average_figure, True),
    ("tasks", "Task by task", tasks_figure, True),
    ("matrix", "Accuracy matrices", matrix_figure, True),
    ("plane", "Learning and forgetting", plane_figure, True),
    ("uncertainty", "Certain and free nodes", uncertainty, False),
    ("ablations", "Ablations", ablations_figure, True),
    ("cost", "Parameters, time, memory", cost, False),
    ("settings", "Settings", settings_used, False),
)


def page(found: Collection, plotly: str) -> str:
    """The report on all runs of `found`, with `plotly` as its drawing library."""
    compared = comparisons(found.complete)
    parts = {slug(comparison): _parts(comparison) for comparison in compared}
    bodies = [_comparison(comparison, parts[slug(comparison)]) for comparison in compared]
    return framed(
        _title(compared),
        _subtitle(found, compared),
        _contents(parts, compared),
        join([_summary(compared), *bodies, every_run(found)]),
        "glossary.html",
        plotly,
    )


def framed(
    title: str, subtitle: str, contents: Html, main: Html, glossary: str, plotly: str
) -> str:
    """One HTML file that needs nothing but itself; `glossary` names the asset that explains what is
    shown, `plotly` is the text of its drawing library."""
    return Template(_asset("page.html")).substitute(
        title=join([title]),
        subtitle=join([subtitle]),
        style=_asset("page.css"),
        contents=contents,
        main=main,
        glossary=_asset(glossary),
        plotly=plotly,
        script=_asset("page.js"),
    )


def _title(compared: Sequence[Comparison]) -> str:
    names = list(dict.fromkeys(benchmark_name(comparison.benchmark) for comparison in compared))
    return f"Continual learning: {listing(names)}" if names else "Continual learning: no result yet"


def _subtitle(found: Collection, compared: Sequence[Comparison]) -> str:
    versions = {
        summary.versions.get("uclearn", "")
        for comparison in compared
        for group in comparison.groups
        for summary in group.summaries
    }
    known = sorted(version for version in versions if version)
    groups = sum(len(comparison.groups) for comparison in compared)
    parts = [
        count(len(found.complete), "complete run"),
        count(groups, "group") + " of equal settings",
        f"{len(found.incomplete)} not complete" if found.incomplete else "",
        f"uclearn {listing(known)}" if known else "",
    ]
    return " · ".join(part for part in parts if part)


def _summary(compared: Sequence[Comparison]) -> Html:
    if not compared:
        body = paragraph("No run is complete yet. What there is stands below.")
    else:
        body = tag("div", {"class": "cards"}, *(card(comparison) for comparison in compared))
    return section("summary", 2, "Summary", body)


def _comparison(comparison: Comparison, parts: Sequence[Part]) -> Html:
    bodies = [part.body for part in parts]
    whole = section(
        slug(comparison),
        2,
        comparison.name,
        legend(comparison, comparison.compared),
        *bodies,
        note=comparison.mark,
    )
    return tag("div", {"class": "study"}, whole)


def _parts(comparison: Comparison) -> list[Part]:
    made = [
        Part(name, title, make(comparison))
        for name, title, make, needs_accuracy in _PARTS
        if comparison.classifies or not needs_accuracy
    ]
    return [part for part in made if part.body]


def _contents(parts: Mapping[str, Sequence[Part]], compared: Sequence[Comparison]) -> Html:
    entries = [link("summary", "Summary")]
    for comparison in compared:
        name = f"{comparison.name} ({comparison.mark})" if comparison.mark else comparison.name
        inner = [
            link(f"{slug(comparison)}-{part.name}", part.title) for part in parts[slug(comparison)]
        ]
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
