"""The legend of a comparison, by which a reader chooses what is shown: in all charts and tables."""

from collections.abc import Sequence

from uclearn.report.chart import swatch
from uclearn.report.groups import Comparison, Group
from uclearn.report.html import Attributes, Html, details, join, tag
from uclearn.report.labels import method_name

_MOST_UNFOLDED = 3
"""Settings of one method that stand in the legend one by one."""
_MOST_WITHOUT_FILTER = 8


def legend(comparison: Comparison, groups: Sequence[Group]) -> Html:
    """Which colour and shape is whose: buttons that show and hide it in all that is said of it.
    Many settings of one method are folded, and where there are many in all, a filter chooses."""
    methods: dict[str, list[Group]] = {}
    for group in groups:
        methods.setdefault(group.method, []).append(group)
    entries = [_family(comparison, own) for own in methods.values()]
    attributes = {"class": "legend", "role": "group", "aria-label": "What is shown"}
    chooser = [_chooser(comparison, groups)] if len(groups) > _MOST_WITHOUT_FILTER else []
    return tag("div", attributes, *chooser, *entries)


def _family(comparison: Comparison, groups: Sequence[Group]) -> Html:
    """The settings of one method."""
    buttons = [_entry(comparison, group) for group in groups]
    if len(groups) <= _MOST_UNFOLDED:
        return join(*buttons)
    name, number = method_name(groups[0].method), len(groups)
    every = " ".join(str(comparison.number(group)) for group in groups)
    whole = tag(
        "button",
        {"type": "button", "data-family": every, "title": f"Show or hide {name}"},
        swatch(groups[0]),
        name,
    )
    inner = details(f"{number} settings", tag("div", {"class": "folded"}, *buttons))
    return tag("div", {"class": "family"}, whole, inner)


def _entry(comparison: Comparison, group: Group) -> Html:
    shown = comparison.number(group) in comparison.first_numbers or group.is_ablation
    attributes: Attributes = {
        "type": "button",
        "aria-pressed": "true" if shown else "false",
        "data-group": comparison.number(group),
        "title": "with the paper’s settings" if group.is_papers else False,
    }
    return tag("button", attributes, swatch(group), group.label)


def _chooser(comparison: Comparison, groups: Sequence[Group]) -> Html:
    field = tag("input", {"type": "search", "placeholder": "part of a name", "size": 16})
    first = sum(comparison.number(group) in comparison.first_numbers for group in groups)
    several = first < len(groups)
    show = [
        tag("button", {"type": "button", "data-show": "first"}, f"First {first}"),
        tag("button", {"type": "button", "data-show": "all"}, f"All {len(groups)}"),
    ]
    told = tag("output", {"aria-live": "polite"}, f"{first} of {len(groups)} shown")
    return tag(
        "div",
        {"class": "chooser"},
        tag("label", {}, "Show ", field),
        *(show if several else show[1:]),
        told,
    )
