"""How a group's uncertainties moved, from the digests that its runs keep in their summaries."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from uclearn.measures.capacity import QUANTILES
from uclearn.report.groups import Group

SHOWN = tuple(QUANTILES.index(share) for share in (0.01, 0.5, 0.99))
"""Which of the recorded quantiles."""

Course = list[list[float]]
"""[task][quantile]"""


def spreads(group: Group) -> dict[str, Course]:
    """Per layer, after each task, the 1 % quantile, the median and the 99 % quantile of sigma /
    initial sigma, mean over seeds; empty where the runs keep none."""
    digests = [summary.extra.get("nodes") for summary in group.summaries]
    known = [digest for digest in digests if isinstance(digest, Mapping)]
    if not known or len(known) < len(digests):
        return {}
    return {name: _mean([digest[name] for digest in known]) for name in known[0]}


def _mean(seeds: Sequence[Course]) -> Course:
    return [
        [fmean(nodes[k] for nodes in after_task) for k in SHOWN]
        for after_task in zip(*seeds, strict=True)
    ]
