"""What stands around a chart: its heading, its words, its legend, its numbers as a table."""

from collections.abc import Sequence

from uclearn.report.chart import glyph
from uclearn.report.groups import COLORS, Group, Study
from uclearn.report.html import Html, details, section, tag


def slug(study: Study) -> str:
    """A name for links into the page."""
    words = f"{study.benchmark} {study.tasks} {' '.join(study.marks)}".lower()
    return "-".join("".join(c if c.isalnum() else " " for c in words).split())


def figure(
    study: Study,
    name: str,
    title: str,
    body: Html,
    caption: str,
    *,
    groups: Sequence[Group] = (),
    numbers: Html | None = None,
    saves: bool = False,
) -> Html:
    """A section with one figure of `study`; `name` completes its address.

    `groups` are those in the legend that is printed with it, `numbers` the same as a table,
    `saves` offers the (only) chart as a file.
    """
    parts = [printed_legend(groups)] if groups else []
    below = [details("The numbers", numbers)] if numbers else []
    if saves:
        below.append(tag("button", {"type": "button", "class": "save"}, "Save as SVG"))
    identity = f"{slug(study)}-{name}"
    return section(
        identity,
        3,
        title,
        tag(
            "figure",
            {"aria-labelledby": identity},
            *parts,
            body,
            tag("figcaption", {}, caption),
        ),
        tag("div", {"class": "below"}, *below) if below else Html(),
        note=study.mark,
    )


def legend(study: Study, groups: Sequence[Group]) -> Html:
    """Which colour and shape is whose: buttons that show and hide it in all figures of `study`."""
    buttons = [
        tag(
            "button",
            {"type": "button", "aria-pressed": "true", "data-group": study.groups.index(group)},
            swatch(group),
            group.label,
        )
        for group in groups
    ]
    attributes = {"class": "legend", "role": "group", "aria-label": "Show or hide in the figures"}
    return tag("div", attributes, *buttons)


def printed_legend(groups: Sequence[Group]) -> Html:
    """The same on paper, where each figure needs its own."""
    entries = [tag("li", {}, swatch(group), group.label) for group in groups]
    return tag("ul", {"class": "printed legend", "aria-hidden": "true"}, *entries)


def swatch(group: Group) -> Html:
    """The shape of a group in its colour."""
    style = f"color:var(--series-{group.style % COLORS})"
    attributes = {"class": "swatch", "aria-hidden": "true", "style": style}
    return tag("span", attributes, glyph(group.style))


def scale_bar(kind: str, low: str, high: str) -> Html:
    """What the colours of a heat map mean; `kind` is its scale in the style sheet."""
    return tag(
        "p",
        {"class": "scale-bar"},
        tag("span", {}, low),
        tag("span", {"class": f"ramp {kind}", "aria-hidden": "true"}),
        tag("span", {}, high),
    )
