"""With what settings: what differs between the groups, and all of each."""

from uclearn.report.figure import slug
from uclearn.report.groups import Study
from uclearn.report.html import Html, details, section, table, tag
from uclearn.report.labels import differing_keys, value_words
from uclearn.report.settings import flatten
from uclearn.report.words import UNKNOWN


def settings_used(study: Study) -> Html:
    """Closed at first: for whoever wants to know exactly."""
    flat = [flatten(group.config) for group in study.groups]
    shared = [key for key in differing_keys(flat) if all(key in one for one in flat)]
    names = [group.label for group in study.groups]
    parts = []
    if shared:
        rows = [[key, *(value_words(one[key]) for one in flat)] for key in shared]
        caption = "Settings that all have, with different values"
        parts.append(details(caption, table(caption, ["Setting", *names], rows)))
    for name, one in zip(names, flat, strict=True):
        rows = [[key, value_words(value) or UNKNOWN] for key, value in one.items()]
        caption = f"All settings of {name}"
        parts.append(details(caption, table(caption, ["Setting", "Value"], rows, words=[1])))
    whole = section(f"{slug(study)}-settings", 3, "Settings", *parts, note=study.mark)
    return tag("div", {"class": "screen-only"}, whole)
