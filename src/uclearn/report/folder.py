"""A folder for a paper: every figure of the page as PDF and SVG, every table as LaTeX and CSV, and
a file that shows them all."""

from pathlib import Path

from uclearn.report.drawing.figure import compose
from uclearn.report.drawing.pdf import pdf
from uclearn.report.drawing.svg import svg
from uclearn.report.latex import comma_separated, escaped, latex
from uclearn.report.reading import Element, cells_of, is_seen, panels_of, read_page, scale_of, shown
from uclearn.storage.files import refusal, write_chunks

_BEGIN = r"""% All figures and tables of this folder: pdflatex all.tex. Take what you need.
\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\usepackage[margin=2.5cm]{geometry}
\begin{document}
"""
_FIGURE = r"""\begin{figure}
\centering
\includegraphics[width=\linewidth]{figures/%s.pdf}
\caption{%s}
\end{figure}
"""
_TABLE = r"""{\small\setlength{\tabcolsep}{3pt}\input{tables/%s}}
"""
_FLUSH = "\\clearpage\n"


def write_folder(page: str, out: Path) -> None:
    """Everything in `page` that is shown at first, below `out`."""
    written: dict[str, bytes] = {}
    listed = []
    for study in read_page(page).of_class("study"):
        groups = shown(study)
        for section in study.named("section"):
            for name, figure in _numbered(section, "figure"):
                listed += _figure(name, figure, groups, written)
            for name, table in _numbered(section, "table"):
                listed += _table(name, table, groups, written)
            listed.append(_FLUSH)
    written["all.tex"] = f"{_BEGIN}{''.join(listed)}\\end{{document}}\n".encode()
    for place, content in written.items():
        make_folder((out / place).parent)
        write_chunks(out / place, [content], sync=False)


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal("make", folder, error, "Choose another place.") from error


def _numbered(section: Element, kind: str) -> list[tuple[str, Element]]:
    """What stands in a section itself, by the name of a file: as the page calls it (tables.js)."""
    own = [
        one
        for one in section.named(kind)
        if next(place for place in one.above() if place.name == "section") is section
    ]
    name = section.attributes["aria-labelledby"]
    return [(f"{name}-{k + 1}" if k else name, one) for k, one in enumerate(own)]


def _figure(name: str, figure: Element, groups: set[int], written: dict[str, bytes]) -> list[str]:
    panels = panels_of(figure, groups)
    if not panels or not is_seen(figure, groups):
        return []
    scene = compose(panels, groups, scale_of(figure))
    written[f"figures/{name}.pdf"] = pdf(scene)
    written[f"figures/{name}.svg"] = svg(scene).encode()
    (caption,) = figure.named("figcaption")
    return [_FIGURE % (name, escaped(caption.text))]


def _table(name: str, table: Element, groups: set[int], written: dict[str, bytes]) -> list[str]:
    if not is_seen(table, groups):
        return []
    cells = cells_of(table, groups)
    if not cells.rows:
        return []
    written[f"tables/{name}.tex"] = latex(cells, name).encode()
    written[f"tables/{name}.csv"] = comma_separated(cells).encode()
    return [_TABLE % name]
