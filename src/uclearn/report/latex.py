"""Tables for a paper: LaTeX with booktabs, and CSV. The page's own script (tables.js) writes the
same of the rows that a reader has chosen."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "→": r"$\to$",
    "σ": r"$\sigma$",
    "²": "$^2$",
    "’": "'",
    "“": "``",
    "”": "''",
    "<": "$<$",
    ">": "$>$",
    "…": r"\dots{}",
    "★": r"$\star$",
}


@dataclass(frozen=True)
class Cells:
    """What a table says."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def escaped(text: str) -> str:
    r"""Text as LaTeX writes it.

    >>> escaped("94.5 ± 0.2 %, lr_sigma")
    '94.5 $\\pm$ 0.2 \\%, lr\\_sigma'
    """
    return "".join(_SIGNS.get(sign, sign) for sign in text)


def latex(cells: Cells, label: str) -> str:
    r"""A floating table; the first column is words, the others are numbers.

    >>> print(latex(Cells("Results", ["Method", "±"], [["UCL", "0.2"]]), "results"))
    % needs \usepackage{booktabs}
    \begin{table}
    \centering
    \caption{Results}
    \label{tab:results}
    \begin{tabular}{lr}
    \toprule
    Method & $\pm$ \\
    \midrule
    UCL & 0.2 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    head, *body = [" & ".join(map(escaped, row)) + r" \\" for row in (cells.header, *cells.rows)]
    columns = "l" + "r" * (len(cells.header) - 1)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(cells.caption)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def comma_separated(cells: Cells) -> str:
    """The same for a spreadsheet."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([cells.header, *cells.rows])
    return out.getvalue()
