"""`python -m benchmarks.results`: from the records in results/ to what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

from benchmarks.figures import CAPTIONS, Stages, figures
from benchmarks.findings import findings
from benchmarks.pages import filled
from uclearn.paper.numbers import published
from uclearn.report.groups import Comparison, collect, comparisons
from uclearn.report.labels import benchmark_name
from uclearn.report.markdown import markdown
from uclearn.report.overview import AT_A_GLANCE, GLANCE_HEADER, Line, glance, table
from uclearn.report.rewards import (
    at_the_end,
    reference_ranges,
    rewards_by_group,
    task_names,
    when_learned,
)
from uclearn.report.words import UNKNOWN, percent

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results"
DOCUMENT, README = ROOT / "RESULTS.md", ROOT / "README.md"
ACTING, FINDINGS = ROOT / "docs/rl.md", ROOT / "docs/findings.md"
RETURNS = ROOT / "src/uclearn/report/assets/returns.json"
FIGURES = ROOT / "docs/figures"

STAGES = (
    *("untuned", "cifar10-100", "cifar100", "cifar100-ablations", "omniglot", "longer"),
    *("broad", "deep", "ablations", "convolutions", "full-length"),
    *("precision", "price", "grids"),
    *("rl-learns", "rl-three", "rl-four", "rl-eight"),
)
"""The folders of results/ in the order in which RESULTS.md shows them, as far as they were run."""

_SHOWN = ("split-cifar10-100", "rl paper")
"""What the README's table has a row for even before it is run."""


def folders() -> list[Path]:
    """Of the stages that were run."""
    return [RECORDS / stage for stage in STAGES if (RECORDS / stage).is_dir()]


def recorded() -> dict[str, list[Comparison]]:
    """By stage what its runs compare."""
    return {place.name: comparisons(collect([place]).complete) for place in folders()}


def written() -> dict[Path, str]:
    """The text of every file that is made from the records but `RETURNS`."""
    stages = recorded()
    pictures = figures(stages)
    document = _illustrated(markdown(folders()))
    return {
        DOCUMENT: document,
        README: filled(README.read_text(), {"results": shortlist(stages)}),
        ACTING: filled(ACTING.read_text(), {"rl-eight": acting(RECORDS / "rl-eight")}),
        FINDINGS: filled(FINDINGS.read_text(), findings(stages)),
        **{FIGURES / name: text for name, text in pictures.items()},
    }


def _illustrated(document: str) -> str:
    """The document with the figures behind what it begins with."""
    shown = [f"![{words}](docs/figures/{name}.svg)" for name, words in CAPTIONS.items()]
    note = (
        "The paper’s figures from these records, with the numbers that the paper prints. Of "
        "several stages the one with most methods; bands: from the lowest seed to the highest."
    )
    section = "\n\n".join(["## Figures", note, *shown])
    place = document.index("\n## ", document.index("## At a glance")) + 1
    return f"{document[:place]}{section}\n\n{document[place:]}"


def shortlist(stages: Stages) -> str:
    """The README's table: of each benchmark one line, and those of `_SHOWN` in any case."""
    lines: dict[str, list[Line]] = {}
    for line in glance(stages):
        lines.setdefault(line.comparison.benchmark, []).append(line)
    chosen = [max(own, key=_worth) for own in lines.values()]
    rows = [[one.name, one.epochs, *one.found, one.printed] for one in chosen]
    for name in _SHOWN:
        if name not in lines:
            number = published(name, "ucl")
            printed = percent(number.accuracy) if number else "figure only"
            missing = [UNKNOWN] * len(AT_A_GLANCE)
            rows.append([benchmark_name(name), "not run yet", *missing, printed])
    return table(GLANCE_HEADER, rows)


def _worth(line: Line) -> tuple[bool, bool, int]:
    """A line with a rival goes before one of UCL alone, nothing tuned before tuned, long training
    before short."""
    groups = line.comparison.compared
    untuned = any(g.method == "ucl" and g.config.get("preset") == "default" for g in groups)
    rivals = set(line.found[1:]) - {UNKNOWN}
    return bool(rivals), untuned, int(line.epochs) if line.epochs.isdigit() else 0


def acting(folder: Path) -> str:
    """A table of returns when learned and at the end, robot by robot, and what share of them UCL
    by rule learns and keeps, reckoned from what a random policy earns."""
    if not folder.is_dir():
        return "Not run yet: `uclearn rl reproduce rl-eight`."
    (comparison,) = comparisons(collect([folder]).complete)
    groups = [(group, runs) for group, runs in rewards_by_group(comparison) if runs]
    names = task_names(groups)
    rows = [["", *names]]
    found: dict[str, list[tuple[float, float]]] = {}
    for group, runs in groups:
        both = [
            (
                fmean(when_learned(run, task) for run in runs),
                fmean(at_the_end(run, task) for run in runs),
            )
            for task in range(len(names))
        ]
        if group.method != "ucl" or group.config["preset"] == "default":
            found[group.method] = both
        seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
        shown = (f"{learned:.0f} → {end:.0f}" for learned, end in both)
        rows.append([f"{group.label} ({seeds})", *shown])
    nothing = groups[0][1][0].random
    rows.append(["Random policy", *(f"{zero:.0f}" for zero in nothing)])
    if {"ucl", "finetuning"} <= found.keys():
        shares = list(zip(found["ucl"], found["finetuning"], nothing, strict=True))
        learned = (_share(ucl[0], plain[0], zero) for ucl, plain, zero in shares)
        kept = (_share(ucl[1], ucl[0], zero) for ucl, _, zero in shares)
        rows.append(["UCL learns, of what fine-tuning learns, %", *learned])
        rows.append(["UCL keeps, of what it learned, %", *kept])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _share(part: float, whole: float, zero: float) -> str:
    """In percent; of what is no better than chance there is none."""
    return f"{100 * (part - zero) / (whole - zero):.0f}" if whole > zero else "–"


def main() -> None:
    """Write them all; rewards are measured by the returns, so these come first."""
    RETURNS.write_text(json.dumps(reference_ranges(RECORDS), indent=1) + "\n")
    FIGURES.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
