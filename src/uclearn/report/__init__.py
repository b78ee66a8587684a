"""One HTML page from the records of runs, that needs nothing but itself: no network, no torch.

Read in this order: `settings`, `labels` and `groups` (from folders to runs that may be compared),
`html` and `chart` (how anything is shown), `sections` and `rewards` (what is shown, of tasks to
classify and of tasks to act in) and `page`; `claims` and `markdown` for tables without figures;
`live_page` for a model in use, from its journal. What the numbers mean is defined in
`uclearn.measures`, what the paper says stands in `uclearn.paper`.
"""

from collections.abc import Sequence
from pathlib import Path

from uclearn.report.groups import collect
from uclearn.report.live_page import live_page
from uclearn.report.markdown import markdown
from uclearn.report.page import MissingPlotlyError, page, plotly_javascript
from uclearn.storage.files import refusal, write_text
from uclearn.storage.sealed import read_sealed_lines

__all__ = ["MissingPlotlyError", "write_journal_report", "write_report"]


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Write the report on all runs at or below `folders` to the HTML file `out`, or as tables in
    Markdown if its name ends in `.md`; those need no extra, and each folder is a section there.

    Runs whose configurations differ in nothing but the seed are one group; incomplete and damaged
    ones are listed and left out of all figures. Needs the extra `report`
    (`pip install 'uclearn[report]'`).
    """
    if out.suffix == ".md":
        _write(markdown(folders), out)
        return
    plotly = plotly_javascript()  # what is missing is said before anything is read
    _write(page(collect(folders), plotly), out)


def write_journal_report(folder: Path, out: Path) -> None:
    """Write the page on the model in use that is kept in `folder`, from its journal alone."""
    lines = read_sealed_lines(folder / "journal.jsonl")
    _write(live_page(folder.resolve().name, lines, plotly_javascript()), out)


def _write(text: str, out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal("make", out.parent, error, "Choose another place.") from error
    write_text(out, text)
