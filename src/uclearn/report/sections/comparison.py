"""The paper's number beside ours, how sure ours is, and how to make it again."""

from uclearn.paper.numbers import Published, published
from uclearn.report.commands import commands
from uclearn.report.figure import slug, swatch
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, join, mark, paragraph, scrolling, section, tag
from uclearn.report.labels import departures, method_name
from uclearn.report.words import UNKNOWN, count, difference, interval, percent


def comparison(study: Study) -> Html:
    """A table with a row of numbers and a row with the command for each group."""
    name = study.reference.label
    header = ["Method", "Paper", "Ours", "Seeds", "95 % interval", "Points against reference"]
    head = tag("tr", {}, *(tag("th", {"scope": "col", "class": "number"}, h) for h in header))
    bodies = [_body(study, group) for group in study.groups]
    caption = f"Average accuracy after {count(study.tasks, 'task')}: the paper’s number and ours"
    return section(
        f"{slug(study)}-numbers",
        3,
        "The paper’s numbers and ours",
        scrolling(
            f"{caption}, {study.mark}" if study.mark else caption,
            tag("thead", {}, head),
            *bodies,
        ),
        paragraph(
            f"The reference is {name}. Interval: Student’s t over seeds. Points against reference: "
            "percentage points more or less than it, seed by seed, with their own 95 % t interval; "
            "if that includes 0, the difference may be chance. One seed gives no interval."
        ),
        _sources(study),
        note=study.mark,
    )


def _body(study: Study, group: Group) -> Html:
    # what lacks a term is not the method whose number the paper gives
    found = None if group.is_ablation else published(study.benchmark, group.method)
    against = None if group is study.reference else group.against(study.reference)
    cells = [
        percent(found.accuracy) if found else UNKNOWN,
        _ours(study, group, found),
        f"{len(group.runs)}",
        interval(group.accuracy),
        "reference" if group is study.reference else difference(against),
    ]
    # the command has a row of its own, under the numbers it makes
    name = tag("th", {"scope": "rowgroup", "rowspan": 2}, swatch(group), group.label)
    numbers = [tag("td", {"class": "number"}, cell) for cell in cells]
    made_by = [tag("code", {}, command) for command in commands(group)]
    command = tag("td", {"class": "command", "colspan": len(cells)}, *made_by)
    return tag("tbody", {"class": "pair"}, tag("tr", {}, name, *numbers), tag("tr", {}, command))


def _ours(study: Study, group: Group, found: Published | None) -> Html:
    number = percent(group.accuracy.mean if group.accuracy else None)
    differs = departures(group.runs[0].config, study.tasks, found) if found else []
    if not found:
        differs = list(study.marks)
    return join([tag("b", {}, number), *(mark(one) for one in differs)])


def _sources(study: Study) -> Html:
    entries = []
    for method in dict.fromkeys(group.method for group in study.groups):
        found = published(study.benchmark, method)
        if found is not None:
            words = f"; {found.words}" if found.words else ""
            text = f"{method_name(method)}, {percent(found.accuracy)}: {found.source}{words}."
            entries.append(tag("li", {}, text))
    if not entries:
        return paragraph("The paper has no number for this benchmark.")
    return tag(
        "div",
        {"class": "sources"},
        paragraph(
            "The paper: “Uncertainty-based Continual Learning with Adaptive Regularization”, "
            "NeurIPS 2019."
        ),
        tag("ul", {}, *entries),
    )
