"""UCL with and without each of its terms: the paper's Figure 5."""

from uclearn.report.chart import panels
from uclearn.report.figure import figure, legend
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, join, table
from uclearn.report.sections.tasks import shown_tasks, task_panels
from uclearn.report.settings import whole
from uclearn.report.words import UNKNOWN, difference, interval, percent


def ablations_figure(study: Study) -> Html:
    """Each ablation beside UCL with the same settings; nothing if none was run."""
    families = ablation_families(study)
    return join([_figure(study, k, family) for k, family in enumerate(families)])


def ablation_families(study: Study) -> list[list[Group]]:
    """Groups that differ in nothing but UCL's switches, the whole UCL (if it was run) first."""
    families: dict[str, list[Group]] = {}
    for group in study.groups:
        families.setdefault(whole(group.config), []).append(group)
    return [
        sorted(family, key=lambda group: group.is_ablation)
        for family in families.values()
        if any(group.is_ablation for group in family)
    ]


def _figure(study: Study, number: int, family: list[Group]) -> Html:
    complete = None if family[0].is_ablation else family[0]
    rows = [
        [
            group.label,
            percent(group.accuracy.mean if group.accuracy else None),
            f"{len(group.runs)}",
            interval(group.accuracy),
            UNKNOWN
            if complete is None or group is complete
            else difference(group.against(complete)),
        ]
        for group in family
    ]
    return figure(
        study,
        "ablations" if number == 0 else f"ablations-{number + 1}",
        "Ablations: what each term of UCL does",
        join(
            [
                legend(study, family),
                panels(task_panels(study, family, shown_tasks(study.tasks))),
                table(
                    "UCL without each of its terms",
                    ["", "Accuracy", "Seeds", "95 % interval", "Points against UCL (paired)"],
                    rows,
                ),
            ]
        ),
        "The accuracy on each task while later ones are learned, mean over seeds, for UCL and UCL "
        "without: the hold on the weights that leave a certain node (upper freeze), the freeze of "
        "important weights (eq. 5), the inflation of σ that lets old certainty go (eq. 6). As "
        "Figure 5 of the paper.",
    )
