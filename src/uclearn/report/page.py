"""The page: a frame around whatever is shown, and the report on runs in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from uclearn.errors import UclearnError
from uclearn.report.chart import legend, slug
from uclearn.report.groups import Collection, Study, studies
from uclearn.report.html import Html, join, paragraph, section, tag
from uclearn.report.labels import benchmark_name
from uclearn.report.sections.accuracy import ablations_figure, average_figure, tasks_figure
from uclearn.report.sections.forgetting import matrix_figure, plane_figure
from uclearn.report.sections.rewards import rewards_figures
from uclearn.report.sections.summary import card
from uclearn.report.sections.tables import comparison, cost, every_run, settings_used
from uclearn.report.sections.uncertainty import uncertainty
from uclearn.report.words import count, listing


@dataclass(frozen=True)
class Part:
    """A part of a study: `name` completes its address, `title` stands in the contents."""

    name: str
    title: str
    body: Html


_PARTS: tuple[tuple[str, str, Callable[[Study], Html], bool], ...] = (
    # name, title, what makes it, whether it needs accuracies
    ("numbers", "Paper and ours", comparison, True),
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
    compared = studies(found.complete)
    parts = {slug(study): _parts(study) for study in compared}
    bodies = [_study(study, parts[slug(study)]) for study in compared]
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


def _title(compared: Sequence[Study]) -> str:
    names = list(dict.fromkeys(benchmark_name(study.benchmark) for study in compared))
    return f"Continual learning: {listing(names)}" if names else "Continual learning: no result yet"


def _subtitle(found: Collection, compared: Sequence[Study]) -> str:
    versions = {
        summary.versions.get("uclearn", "")
        for study in compared
        for group in study.groups
        for summary in group.summaries
    }
    known = sorted(version for version in versions if version)
    groups = sum(len(study.groups) for study in compared)
    parts = [
        count(len(found.complete), "complete run"),
        count(groups, "group") + " of equal settings",
        f"{len(found.incomplete)} not complete" if found.incomplete else "",
        f"uclearn {listing(known)}" if known else "",
    ]
    return " · ".join(part for part in parts if part)


def _summary(compared: Sequence[Study]) -> Html:
    if not compared:
        body = paragraph("No run is complete yet. What there is stands below.")
    else:
        body = tag("div", {"class": "cards"}, *(card(study) for study in compared))
    return section("summary", 2, "Summary", body)


def _study(study: Study, parts: Sequence[Part]) -> Html:
    bodies = [part.body for part in parts]
    whole = section(
        slug(study), 2, study.name, legend(study, study.compared), *bodies, note=study.mark
    )
    return tag("div", {"class": "study"}, whole)


def _parts(study: Study) -> list[Part]:
    made = [
        Part(name, title, make(study))
        for name, title, make, needs_accuracy in _PARTS
        if study.classifies or not needs_accuracy
    ]
    return [part for part in made if part.body]


def _contents(parts: Mapping[str, Sequence[Part]], compared: Sequence[Study]) -> Html:
    entries = [link("summary", "Summary")]
    for study in compared:
        name = f"{study.name} ({study.mark})" if study.mark else study.name
        inner = [link(f"{slug(study)}-{part.name}", part.title) for part in parts[slug(study)]]
        entries.append(link(slug(study), name, tag("ul", {}, *inner)))
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
