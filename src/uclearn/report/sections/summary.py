"""The outcome in plain words, before any figure."""

from uclearn.measures.capacity import forecast, outlook_words
from uclearn.report.chart import slug, swatch
from uclearn.report.groups import COLORS, Comparison, Group
from uclearn.report.html import Html, join, mark, paragraph, tag
from uclearn.report.labels import in_sentence
from uclearn.report.sections.rewards import rewards_headline
from uclearn.report.sections.uncertainty import mean_certain_share, node_histories
from uclearn.report.words import count, listing, percent, points

_MOST_BARS = 12
_MOST_IN_A_SENTENCE = 4


def card(comparison: Comparison) -> Html:
    """What each method keeps, how sure that is, and where the network is heading."""
    link = tag("a", {"href": f"#{slug(comparison)}"}, comparison.name)
    return tag(
        "article",
        {"class": "card"},
        tag("h3", {}, link, *([" ", mark(comparison.mark)] if comparison.mark else [])),
        tag("p", {"class": "lead"}, headline(comparison)),
        _bars(comparison),
        paragraph(" ".join([certainty(comparison), *_outlook(comparison)])),
    )


def headline(comparison: Comparison) -> str:
    """What each method keeps: "UCL keeps 74 %, fine-tuning 51 %."."""
    groups = _in_a_sentence(comparison)
    if not groups:
        return rewards_headline(comparison) or "These runs hold no accuracies."
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
    if difference.low is None or difference.high is None:
        return (
            f"{first.label} is {gap} points {ahead} {name}, with one seed: nothing says yet how "
            "much of that is chance."
        )
    ends = listing([points(difference.low), points(difference.high)])
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
    return [
        f"{percent(shares[-1], 0)} of the nodes of {in_sentence(comparison.reference.label)} are "
        f"certain. {outlook_words(forecast(shares), len(shares))}"
    ]


def _bars(comparison: Comparison) -> Html:
    groups = [group for group in comparison.compared if group.accuracy is not None]
    bars = [_bar(group) for group in groups[:_MOST_BARS]]
    if left_out := groups[_MOST_BARS:]:
        bars.append(tag("li", {"class": "more"}, f"and {len(left_out)} more in the table below"))
    return tag("ul", {"class": "bars"}, *bars)


def _bar(group: Group) -> Html:
    found = group.accuracy
    if found is None:
        return Html()
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    style = f"--share:{100 * found.mean:.2f}%;--color:var(--series-{group.style % COLORS})"
    return tag(
        "li",
        {"style": style},
        tag("span", {"class": "name"}, swatch(group), group.label),
        tag("span", {"class": "value"}, join([percent(found.mean), spread])),
        tag("span", {"class": "bar", "aria-hidden": "true"}),
    )
