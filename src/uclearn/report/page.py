"""The whole page, from its parts."""

from collections.abc import Sequence
from importlib.resources import files
from string import Template

from uclearn.report.collect import Collection
from uclearn.report.figure import legend, slug
from uclearn.report.groups import Study, studies
from uclearn.report.html import Html, join, paragraph, section, tag
from uclearn.report.labels import benchmark_name
from uclearn.report.sections.ablations import ablations_figure
from uclearn.report.sections.average import average_figure
from uclearn.report.sections.comparison import comparison
from uclearn.report.sections.cost import cost
from uclearn.report.sections.matrices import matrix_figure
from uclearn.report.sections.plane import plane_figure
from uclearn.report.sections.runs import runs
from uclearn.report.sections.settings_used import settings_used
from uclearn.report.sections.summary import card
from uclearn.report.sections.tasks import tasks_figure
from uclearn.report.sections.uncertainty import uncertainty
from uclearn.report.words import count, listing


def page(found: Collection, plotly: str) -> str:
    """The report on all runs of `found` as one HTML file, with `plotly` as its drawing library."""
    compared = studies(found.complete)
    return Template(_asset("page.html")).substitute(
        title=join([_title(compared)]),
        subtitle=join([_subtitle(found, compared)]),
        style=_asset("page.css"),
        contents=_contents(compared),
        main=join([_summary(compared), *(_study(study) for study in compared), runs(found)]),
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


def _study(study: Study) -> Html:
    figures = [
        comparison(study),
        average_figure(study),
        tasks_figure(study),
        matrix_figure(study),
        plane_figure(study),
    ]
    parts = [
        legend(study, study.compared),
        *(figures if study.classifies else []),
        uncertainty(study),
        ablations_figure(study) if study.classifies else Html(),
        cost(study),
        settings_used(study),
    ]
    whole = section(slug(study), 2, study.name, *parts, note=study.mark)
    return tag("div", {"class": "study"}, whole)


def _contents(compared: Sequence[Study]) -> Html:
    links = [("summary", "Summary", "")]
    links += [(slug(study), study.name, study.mark) for study in compared]
    links += [("reading", "How to read it", ""), ("runs", "Runs", "")]
    entries = [
        tag("li", {}, tag("a", {"href": f"#{identity}"}, name, f" ({mark})" if mark else ""))
        for identity, name, mark in links
    ]
    return tag("ul", {}, *entries)


def _asset(name: str) -> str:
    return (files("uclearn.report") / "assets" / name).read_text(encoding="utf-8")
