"""All about the uncertainty of the nodes, for each group whose runs tell of it."""

from collections.abc import Sequence

from uclearn.measures.capacity import Layer, layers_of
from uclearn.report.figure import slug
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, details, join, section, tag
from uclearn.report.sections.capacity_map import capacity_map
from uclearn.report.sections.filling import filling
from uclearn.report.sections.histograms import histograms


def uncertainty(study: Study) -> Html:
    """Histograms, map and forecast: open for the reference, on request for all others."""
    first = study.reference
    ordered = [first, *(group for group in study.groups if group is not first)]
    told = [(group, seeds) for group in ordered if (seeds := node_histories(group))]
    if not told:
        return Html()
    parts = [_one(*told[0])]
    parts += [
        details(f"The same for {group.label}", _one(group, seeds)) for group, seeds in told[1:]
    ]
    return section(
        f"{slug(study)}-uncertainty",
        3,
        f"Certain and free nodes: {told[0][0].label}",
        *parts,
        note=study.mark,
    )


def node_histories(group: Group) -> dict[int, list[Layer]]:
    """By seed the layers with their nodes' uncertainty over the tasks, where it was recorded."""
    found = {seed: layers_of(run.events) for seed, run in zip(group.seeds, group.runs, strict=True)}
    return {seed: layers for seed, layers in found.items() if layers}


def _one(group: Group, seeds: dict[int, list[Layer]]) -> Html:
    histories: Sequence[Sequence[Layer]] = list(seeds.values())
    return join(
        [
            tag("h4", {}, "Uncertainty of the nodes"),
            histograms(group, histories),
            tag("h4", {}, "Capacity map"),
            capacity_map(histories, next(iter(seeds))),
            tag("h4", {}, "How fast the network fills up"),
            filling(group, histories),
        ]
    )
