"""`python -m benchmarks.results`: from the records in results/ to what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.pages import filled
from uclearn.report import write_report
from uclearn.report.rewards import reference_ranges

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results"
DOCUMENT, README = ROOT / "RESULTS.md", ROOT / "README.md"
RETURNS = ROOT / "src/uclearn/report/assets/returns.json"

STAGES = (
    *("untuned", "broad", "deep", "ablations", "convolutions", "full-length", "grids"),
    *("rl-learns", "rl-three", "rl-four"),
)
"""The folders of results/ in the order in which RESULTS.md shows them."""


def tables(document: str) -> dict[str, str]:
    """Those of the README: all sections at a glance."""
    overview = document.partition("## At a glance\n")[2].partition("\n## ")[0]
    lines = [line for line in overview.splitlines() if line.startswith("|")]
    return {"results": "\n".join(lines)}


def main() -> None:
    """Write them all; rewards are measured by the returns, so these come first."""
    RETURNS.write_text(json.dumps(reference_ranges(RECORDS), indent=1) + "\n")
    write_report([RECORDS / stage for stage in STAGES], DOCUMENT)
    README.write_text(filled(README.read_text(), tables(DOCUMENT.read_text())))


if __name__ == "__main__":
    main()
