"""One HTML page from the records of runs, that needs nothing but itself: no network, no torch.

Read in this order: `settings`, `labels` and `groups` (from folders to runs that may be compared),
`html` and `chart` (how anything is shown), `sections` and `rewards` (what is shown, of tasks to
classify and of tasks to act in), `legend` and `page`; `claims` and `markdown` for tables without
figures; `reading`, `drawing`, `latex` and `folder` for the figures and tables of a paper;
`live_page` for a model in use, from its journal. What the numbers mean is defined in
`uclearn.measures`, what the paper says stands in `uclearn.paper`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from uclearn.errors import SettingError
from uclearn.report.folder import make_folder, write_folder
from uclearn.report.groups import collect
from uclearn.report.live_page import live_page
from uclearn.report.markdown import markdown
from uclearn.report.page import MissingPlotlyError, page, plotly_javascript
from uclearn.storage.files import write_text
from uclearn.storage.sealed import read_sealed_lines

__all__ = ["MissingPlotlyError", "write_journal_report", "write_report"]


def write_report(
    folders: Sequence[Path], out: Path, labels: Mapping[str, str] | None = None
) -> None:
    """Write the report on all runs at or below `folders` to `out`, by its name: a page (`.html`),
    tables in Markdown (`.md`, each folder a section), or, without an ending, a folder of figures
    and tables for a paper. Only the page needs the extra `report`
    (`pip install 'uclearn[report]'`).

    Runs whose configurations differ in nothing but the seed are one group; incomplete and damaged
    ones are listed and left out of all figures. `labels` are other names for groups, by the labels
    that they would have.
    """
    if out.suffix == ".md":
        _write(markdown(folders, labels), out)
    elif not out.suffix or out.is_dir():
        write_folder(page(collect(folders), "", labels), out)
    elif out.suffix in (".html", ".htm"):
        plotly = plotly_javascript()  # what is missing is said before anything is read
        _write(page(collect(folders), plotly, labels), out)
    else:
        raise SettingError(
            f"`out` must end in .html (the page), in .md (tables) or in nothing (a folder of "
            f"figures and LaTeX tables), got {str(out)!r}.{_PDF if out.suffix == '.pdf' else ''}"
        )


_PDF = (
    " For a PDF of the page open it in a browser and print it; `-o paper` writes every figure as "
    "a PDF of its own."
)


def write_journal_report(folder: Path, out: Path) -> None:
    """Write the page on the model in use that is kept in `folder`, from its journal alone."""
    lines = read_sealed_lines(folder / "journal.jsonl")
    _write(live_page(folder.resolve().name, lines, plotly_javascript()), out)


def _write(text: str, out: Path) -> None:
    make_folder(out.parent)
    write_text(out, text)
